// These codelets convolve a slice of images, channels last. They compute forward with bias and
// activation, and the gradients of weights, bias and data. Backward expects a diff_dst that has
// been multiplied by the activation's gradient.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

#include "codelets/convolution/convolution_shape.hpp"
#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

struct BufferSet;
struct WorkingFloats;

struct ConvForwardArgs {
  static constexpr Pass kPass = Pass::forward;
  ConvShape shape;
  Activation activation = Activation::linear;
  bool has_bias = false;  // set by the submit function

  auto operator<=>(const ConvForwardArgs&) const = default;
};

struct ConvWeightsArgs {
  static constexpr Pass kPass = Pass::backward_weights;
  ConvShape shape;
  bool adds = true;       // true: adds to diff_weights; to diff_bias it always adds
  bool has_bias = false;  // the submit function sets it

  auto operator<=>(const ConvWeightsArgs&) const = default;
};

struct ConvDataArgs {
  static constexpr Pass kPass = Pass::backward_data;
  ConvShape shape;
  bool adds = false;  // true: adds to diff_src

  auto operator<=>(const ConvDataArgs&) const = default;
};

namespace reference {

// Calls visit(src index, weight index, dst index) for every product of the convolution.
void for_each_product(const ConvShape& s, auto visit) {
  const int out_h = s.out_h(), out_w = s.out_w(), group_c = s.group_c();
  std::int64_t dst = 0;
  for (int image = 0; image < s.n; ++image)
    for (int y = 0; y < out_h; ++y)
      for (int x = 0; x < out_w; ++x)
        for (int filter = 0; filter < s.filters; ++filter, ++dst)
          for (int ky = 0; ky < s.kernel_h; ++ky)
            for (int kx = 0; kx < s.kernel_w; ++kx) {
              const int src_y = y * s.stride_h - s.pad_h + ky * s.dilation_h;
              const int src_x = x * s.stride_w - s.pad_w + kx * s.dilation_w;
              if (src_y < 0 || src_y >= s.h || src_x < 0 || src_x >= s.w) continue;
              const std::int64_t src = ((std::int64_t{image} * s.h + src_y) * s.w + src_x) * s.c +
                                       filter / s.group_filters() * group_c;
              const std::int64_t weight =
                  ((std::int64_t{filter} * s.kernel_h + ky) * s.kernel_w + kx) * group_c;
              for (int k = 0; k < group_c; ++k) visit(src + k, weight + k, dst);
            }
}

// Reads `bias` only if has_bias.
template <class T>
void conv_forward(const ConvForwardArgs& args, const T* src, const T* weights, T* dst,
                  const T* bias) {
  const std::int64_t count = args.shape.dst_count();
  for (std::int64_t i = 0; i < count; ++i)
    dst[i] = args.has_bias ? bias[i % args.shape.filters] : T(0);
  for_each_product(args.shape, [=](std::int64_t s, std::int64_t w, std::int64_t d) {
    dst[d] += src[s] * weights[w];
  });
  activate(args.activation, dst, count);
}

template <class T>
void conv_backward_weights(const ConvWeightsArgs& args, const T* src, const T* diff_dst,
                           T* diff_weights, T* diff_bias) {
  if (!args.adds) std::fill_n(diff_weights, args.shape.weights_count(), T(0));
  for_each_product(args.shape, [=](std::int64_t s, std::int64_t w, std::int64_t d) {
    diff_weights[w] += src[s] * diff_dst[d];
  });
  if (!args.has_bias) return;
  for (std::int64_t i = 0; i < args.shape.dst_count(); ++i)
    diff_bias[i % args.shape.filters] += diff_dst[i];
}

template <class T>
void conv_backward_data(const ConvDataArgs& args, const T* diff_dst, const T* weights,
                        T* diff_src) {
  if (!args.adds) std::fill_n(diff_src, args.shape.src_count(), T(0));
  for_each_product(args.shape, [=](std::int64_t s, std::int64_t w, std::int64_t d) {
    diff_src[s] += diff_dst[d] * weights[w];
  });
}

}  // namespace reference

OMNI_CODELET(ConvForwardArgs, conv_forward);  // {src R, weights R, dst W, [bias R]}
// The buffers are {src R, diff_dst R, diff_weights += or W, [diff_bias +=]}.
OMNI_CODELET(ConvWeightsArgs, conv_backward_weights);
OMNI_CODELET(ConvDataArgs, conv_backward_data);  // {diff_dst R, weights R, diff_src W or +=}

namespace gpu {

// These kernels compute the passes that cuDNN refuses, by matrix products of cuBLAS.
KernelFunction<ConvForwardArgs> conv_forward_lowered;
KernelFunction<ConvWeightsArgs> conv_backward_weights_lowered;
KernelFunction<ConvDataArgs> conv_backward_data_lowered;

}  // namespace gpu

// Computes one of the three passes by oneDNN. Args is the type of the pass's arguments.
template <class Args>
void conv_onednn(const Args& args, const Buffers& buffers, DeviceContext& context);
// Returns how much memory a task takes. The first call makes the plan of the pass, since only
// oneDNN knows how much memory the plan needs.
template <class Args>
WorkingFloats conv_onednn_floats(const Args& args, BufferSet in_bf16);

// Submits the forward pass. `bias` is null if there is none.
void submit_conv_forward(ConvForwardArgs args, const Tensor& src, const Tensor& weights,
                         const Tensor* bias, const Tensor& dst, TaskTag tag = {});
// Submits the gradients of weights and bias. `diff_bias` is null if there is none.
void submit_conv_backward_weights(ConvWeightsArgs args, const Tensor& src, const Tensor& diff_dst,
                                  const Tensor& diff_weights, const Tensor* diff_bias,
                                  TaskTag tag = {});
void submit_conv_backward_data(const ConvDataArgs& args, const Tensor& diff_dst,
                               const Tensor& weights, const Tensor& diff_src, TaskTag tag = {});

}  // namespace omni
