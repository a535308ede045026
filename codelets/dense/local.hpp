// A locally connected layer works on a slice of images, channels last. It is a convolution with
// different weights at every location of the output, a bias for every output value, and an
// activation. Backward expects a diff_dst that has been multiplied by the activation's gradient.
#pragma once

#include <cstdint>

#include "codelets/convolution/convolution.hpp"

namespace omni {

// The weights are ordered by location (y, x), filter, kernel_h, kernel_w, c. The biases are ordered
// like the values of dst.
struct LocalShape {
  ConvShape conv;  // the convolution with the same sizes; groups and dilation are 1

  int locations() const { return conv.out_h() * conv.out_w(); }
  int outputs() const { return locations() * conv.filters; }  // per image
  std::int64_t weights_count() const { return locations() * conv.weights_count(); }
};

struct LocalForwardArgs {
  LocalShape shape;
  Activation activation = Activation::linear;
};

struct LocalBackwardArgs {
  LocalShape shape;
};

namespace reference {

// Calls visit() as the function for convolutions does, but with the index of the location's weight.
void for_each_product(const LocalShape& s, auto visit) {
  for_each_product(s.conv, [&](std::int64_t src, std::int64_t weight, std::int64_t dst) {
    const std::int64_t location = dst % s.outputs() / s.conv.filters;
    visit(src, location * s.conv.weights_count() + weight, dst);
  });
}

template <class T>
void local_forward(const LocalForwardArgs& args, const T* src, const T* weights, const T* bias,
                   T* dst) {
  const std::int64_t count = args.shape.conv.dst_count();
  for (std::int64_t i = 0; i < count; ++i) dst[i] = bias[i % args.shape.outputs()];
  for_each_product(args.shape, [=](std::int64_t s, std::int64_t w, std::int64_t d) {
    dst[d] += src[s] * weights[w];
  });
  activate(args.activation, dst, count);
}

template <class T>
void local_backward_weights(const LocalBackwardArgs& args, const T* src, const T* diff_dst,
                            T* diff_weights, T* diff_bias) {
  for_each_product(args.shape, [=](std::int64_t s, std::int64_t w, std::int64_t d) {
    diff_weights[w] += src[s] * diff_dst[d];
  });
  for (std::int64_t i = 0; i < args.shape.conv.dst_count(); ++i)
    diff_bias[i % args.shape.outputs()] += diff_dst[i];
}

template <class T>
void local_backward_data(const LocalBackwardArgs& args, const T* diff_dst, const T* weights,
                         T* diff_src) {
  std::fill_n(diff_src, args.shape.conv.src_count(), T(0));
  for_each_product(args.shape, [=](std::int64_t s, std::int64_t w, std::int64_t d) {
    diff_src[s] += diff_dst[d] * weights[w];
  });
}

}  // namespace reference

OMNI_CODELET(LocalForwardArgs, local_forward);            // {src R, weights R, bias R, dst W}
OMNI_CODELET(LocalBackwardArgs, local_backward_weights);  // {src R, diff_dst R, diff_weights +=,
                                                          //  diff_bias +=}
OMNI_CODELET(LocalBackwardArgs, local_backward_data);     // {diff_dst R, weights R, diff_src W}

}  // namespace omni
