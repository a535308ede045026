// Folding changes a convolution with a stride, or whose channels do not fill vectors, into one with
// stride 1 and whole vectors of channels. The s x s pixels of a step become the channels of one
// pixel: an 11x11 kernel with stride 4 becomes a 3x3 kernel. Zeros fill up padding, channels and
// kernels.
#pragma once

#include "codelets/convolution/convolution_shape.hpp"

namespace omni {

class Folding {
 public:
  // Channels and filters are rounded up to multiples of `lanes`. supports(shape) must be true.
  Folding(const ConvShape& shape, int lanes);
  static bool supports(const ConvShape& shape);

  const ConvShape& folded() const { return folded_; }

  void fold_src(const float* src, float* folded) const;
  void unfold_src(const float* folded, bool adds, float* src) const;
  void fold_weights(const float* weights, float* folded) const;
  void add_unfolded_weights(const float* folded, float* weights) const;
  // Folds dst, of which only the number of filters changes.
  void fold_dst(const float* dst, float* folded) const;
  void unfold_dst(const float* folded, float* dst) const;

 private:
  void for_each_run(auto visit) const;
  void for_each_tap(auto visit) const;

  ConvShape shape_, folded_;
};

}  // namespace omni
