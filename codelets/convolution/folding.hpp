// A convolution with a stride, or with odd numbers of channels, as one with stride 1 on whole
// vectors of channels: the s x s pixels that a step passes over become the channels of one pixel,
// and an 11x11 kernel with stride 4 a 3x3 kernel. Zeros fill up padding, channels and kernels.
#pragma once

#include "codelets/convolution/convolution_shape.hpp"

namespace omni {

class Folding {
 public:
  // Of a convolution without groups, square in kernel and stride and without dilation; channels and
  // filters become multiples of `lanes`.
  Folding(const ConvShape& shape, int lanes);
  static bool supports(const ConvShape& shape);

  const ConvShape& folded() const { return folded_; }

  void fold_src(const float* src, float* folded) const;
  void unfold_src(const float* folded, bool adds, float* src) const;
  void fold_weights(const float* weights, float* folded) const;
  void add_unfolded_weights(const float* folded, float* weights) const;
  // dst differs in its filters only.
  void fold_dst(const float* dst, float* folded) const;
  void unfold_dst(const float* folded, float* dst) const;

 private:
  void for_each_run(auto visit) const;
  void for_each_tap(auto visit) const;

  ConvShape shape_, folded_;
};

}  // namespace omni
