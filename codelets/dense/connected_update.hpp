// One CPU task that computes the gradient of a connected layer's weights and biases, and updates
// them. It works in pieces of some MiB, which stay in caches: no other task needs the gradient,
// because every mini-batch is an update. (A gradient in memory would be written, read and cleared:
// as much traffic as the update's own.)
#pragma once

#include <vector>

#include "codelets/dense/connected.hpp"
#include "codelets/elementwise/exchange.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

// Arguments of both updates (weights, bias): one rule, no replica. The shape gives the number of
// values.
struct ConnectedUpdateArgs {
  ConnectedShape shape;
  ExchangeArgs weights, bias;
};

// Values and optimizer state of each of the two.
template <class T>
struct Updated {
  T *master, *velocity;
  T* mean_square = nullptr;  // of Adam
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

// Parts of tensors that are cut alike.
struct UpdatedPart {
  TensorPart master, velocity;
  std::optional<TensorPart> mean_square{};  // of Adam
};

void submit_connected_backward_update(ConnectedUpdateArgs args, const Tensor& src,
                                      const Tensor& diff_dst, const UpdatedPart& weights,
                                      const UpdatedPart& bias, TaskTag tag = {});

}  // namespace omni
