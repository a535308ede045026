// A connected layer computes dst = activation(src * weights^T + bias) on a slice of images, and the
// gradients of weights, bias and data. Backward expects a diff_dst that has been multiplied by the
// activation's gradient.
#pragma once

#include <cstdint>

#include "codelets/convolution/convolution.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

// src is n x inputs (an image's h, w, c flattened), weights are outputs x inputs, and dst is n x
// outputs.
struct ConnectedShape {
  int n = 1, inputs = 1, outputs = 1;

  std::int64_t src_count() const { return std::int64_t{n} * inputs; }
  std::int64_t dst_count() const { return std::int64_t{n} * outputs; }
  std::int64_t weights_count() const { return std::int64_t{outputs} * inputs; }
};

struct ConnectedForwardArgs {
  ConnectedShape shape;
  Activation activation = Activation::linear;
  bool has_bias = false;  // the submit function sets it
};

struct ConnectedWeightsArgs {
  ConnectedShape shape;
  bool adds = true;       // true: adds to diff_weights; to diff_bias it always adds
  bool has_bias = false;  // the submit function sets it
};

struct ConnectedDataArgs {
  ConnectedShape shape;
};

namespace reference {

// Returns the layer as a convolution of images of one pixel.
inline ConvShape as_convolution(const ConnectedShape& s) {
  return {.n = s.n, .c = s.inputs, .filters = s.outputs};
}

// Reads `bias` only if has_bias.
template <class T>
void connected_forward(const ConnectedForwardArgs& args, const T* src, const T* weights, T* dst,
                       const T* bias) {
  conv_forward<T>({as_convolution(args.shape), args.activation, args.has_bias}, src, weights, dst,
                  bias);
}

template <class T>
void connected_backward_weights(const ConnectedWeightsArgs& args, const T* src, const T* diff_dst,
                                T* diff_weights, T* diff_bias) {
  conv_backward_weights<T>({as_convolution(args.shape), args.adds, args.has_bias}, src, diff_dst,
                           diff_weights, diff_bias);
}

template <class T>
void connected_backward_data(const ConnectedDataArgs& args, const T* diff_dst, const T* weights,
                             T* diff_src) {
  conv_backward_data<T>({as_convolution(args.shape)}, diff_dst, weights, diff_src);
}

}  // namespace reference

OMNI_CODELET(ConnectedForwardArgs, connected_forward);  // {src R, weights R, dst W, [bias R]}
// The buffers are {src R, diff_dst R, diff_weights += or W, [diff_bias +=]}.
OMNI_CODELET(ConnectedWeightsArgs, connected_backward_weights);
OMNI_CODELET(ConnectedDataArgs, connected_backward_data);  // {diff_dst R, weights R, diff_src W}

// Submits the forward pass. Weights and biases may be those of a block of neurons; shape.outputs is
// the number of these neurons.
void submit_connected_forward(ConnectedForwardArgs args, const Tensor& src, TensorPart weights,
                              std::optional<TensorPart> bias, const Tensor& dst, TaskTag tag = {});
void submit_connected_backward_weights(ConnectedWeightsArgs args, const Tensor& src,
                                       const Tensor& diff_dst, TensorPart diff_weights,
                                       std::optional<TensorPart> diff_bias, TaskTag tag = {});

}  // namespace omni
