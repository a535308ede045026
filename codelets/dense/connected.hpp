// Connected layer on a slice of images: dst = activation(src * weights^T + bias), and the gradients
// of weights, bias and data. Backward expects the activation's gradient already in diff_dst.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

// src n,inputs (an image's h,w,c flattened); weights outputs,inputs; dst n,outputs.
struct ConnectedShape {
  int n = 1, inputs = 1, outputs = 1;

  std::int64_t src_count() const { return std::int64_t{n} * inputs; }
  std::int64_t dst_count() const { return std::int64_t{n} * outputs; }
  std::int64_t weights_count() const { return std::int64_t{outputs} * inputs; }
};

struct ConnectedForwardArgs {
  ConnectedShape shape;
  Activation activation = Activation::linear;
  bool has_bias = false;  // set by the submit function
};

struct ConnectedWeightsArgs {
  ConnectedShape shape;
  bool adds = true;       // to diff_weights; to diff_bias always
  bool has_bias = false;  // set by the submit function
};

struct ConnectedDataArgs {
  ConnectedShape shape;
};

namespace reference {

// Calls visit(src index, weight index, dst index) for every product.
void for_each_product(const ConnectedShape& s, auto visit) {
  for (std::int64_t image = 0; image < s.n; ++image)
    for (std::int64_t out = 0; out < s.outputs; ++out)
      for (std::int64_t in = 0; in < s.inputs; ++in)
        visit(image * s.inputs + in, out * s.inputs + in, image * s.outputs + out);
}

// bias: read only with has_bias.
template <class T>
void connected_forward(const ConnectedForwardArgs& args, const T* src, const T* weights, T* dst,
                       const T* bias) {
  const std::int64_t count = args.shape.dst_count();
  for (std::int64_t i = 0; i < count; ++i)
    dst[i] = args.has_bias ? bias[i % args.shape.outputs] : T(0);
  for_each_product(args.shape, [=](std::int64_t s, std::int64_t w, std::int64_t d) {
    dst[d] += src[s] * weights[w];
  });
  activate(args.activation, dst, static_cast<std::size_t>(count));
}

template <class T>
void connected_backward_weights(const ConnectedWeightsArgs& args, const T* src, const T* diff_dst,
                                T* diff_weights, T* diff_bias) {
  if (!args.adds) std::fill_n(diff_weights, args.shape.weights_count(), T(0));
  for_each_product(args.shape, [=](std::int64_t s, std::int64_t w, std::int64_t d) {
    diff_weights[w] += src[s] * diff_dst[d];
  });
  if (!args.has_bias) return;
  for (std::int64_t i = 0; i < args.shape.dst_count(); ++i)
    diff_bias[i % args.shape.outputs] += diff_dst[i];
}

template <class T>
void connected_backward_data(const ConnectedDataArgs& args, const T* diff_dst, const T* weights,
                             T* diff_src) {
  std::fill_n(diff_src, args.shape.src_count(), T(0));
  for_each_product(args.shape, [=](std::int64_t s, std::int64_t w, std::int64_t d) {
    diff_src[s] += diff_dst[d] * weights[w];
  });
}

}  // namespace reference

namespace gpu {
KernelFunction<ConnectedForwardArgs> connected_forward;
KernelFunction<ConnectedWeightsArgs> connected_backward_weights;
KernelFunction<ConnectedDataArgs> connected_backward_data;
}  // namespace gpu

extern Codelet<ConnectedForwardArgs> connected_forward;  // {src R, weights R, dst W, [bias R]}
extern Codelet<ConnectedWeightsArgs>
    connected_backward_weights;                             // {src R, diff_dst R, diff_weights +=
                                                            //  or W, [diff_bias +=]}
extern Codelet<ConnectedDataArgs> connected_backward_data;  // {diff_dst R, weights R, diff_src W}

// The weights and biases may be those of a block of neurons; shape.outputs counts them.
void submit_connected_forward(ConnectedForwardArgs args, const Tensor& src, TensorPart weights,
                              std::optional<TensorPart> bias, const Tensor& dst, TaskTag tag = {});
void submit_connected_backward_weights(ConnectedWeightsArgs args, const Tensor& src,
                                       const Tensor& diff_dst, TensorPart diff_weights,
                                       std::optional<TensorPart> diff_bias, TaskTag tag = {});

}  // namespace omni
