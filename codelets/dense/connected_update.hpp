// One CPU task computes the gradient of a connected layer's weights and biases, and updates them.
// It is used where every mini-batch is an update, so no other task needs the gradient. The task
// works on pieces of some MiB, which stay in caches. A gradient in memory would be written, read
// and cleared, which is as much traffic as that of the update itself.
#pragma once

#include <vector>

#include "codelets/dense/connected.hpp"
#include "codelets/elementwise/exchange.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

// `weights` and `bias` are the arguments of the two updates. Both must have the same rule and no
// replica. Their numbers of values follow from the shape.
struct ConnectedUpdateArgs {
  ConnectedShape shape;
  ExchangeArgs weights, bias;
};

// Updated points to the values of weights or biases, and to their optimizer state.
template <class T>
struct Updated {
  T *master, *velocity;
  T* mean_square = nullptr;  // null: not Adam
};

namespace reference {

template <class T>
void connected_backward_update(const ConnectedUpdateArgs& args, const T* src, const T* diff_dst,
                               Updated<T> weights, Updated<T> bias) {
  std::vector<T> diff_weights(args.shape.weights_count()), diff_bias(args.shape.outputs);
  connected_backward_weights({.shape = args.shape, .has_bias = true}, src, diff_dst,
                             diff_weights.data(), diff_bias.data());
  const auto update = [](ExchangeArgs rule, std::vector<T>& diff, const Updated<T>& of) {
    rule.count = static_cast<std::int64_t>(diff.size());
    exchange<T>(rule, {of.master, diff.data(), of.velocity, nullptr, of.mean_square});
  };
  update(args.weights, diff_weights, weights);
  update(args.bias, diff_bias, bias);
}

}  // namespace reference

extern Codelet<ConnectedUpdateArgs>
    connected_backward_update;  // {src R, diff_dst R,
                                //  weights RW, their velocity RW,
                                //  bias RW, its velocity RW,
                                //  [mean squares RW, of weights and bias]}

// An UpdatedPart is one part of a parameter, with the same part of its optimizer state. All these
// tensors are cut into the same parts.
struct UpdatedPart {
  TensorPart master, velocity;
  std::optional<TensorPart> mean_square{};  // nullopt: not Adam
};

void submit_connected_backward_update(ConnectedUpdateArgs args, const Tensor& src,
                                      const Tensor& diff_dst, const UpdatedPart& weights,
                                      const UpdatedPart& bias, TaskTag tag = {});

}  // namespace omni
