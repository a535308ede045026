// The activation at the end of a layer, by its `activation` key. Usually the layer's own task
// applies it in place. If its gradient needs its input, it is a task of its own, and the layer
// keeps the values before it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codelets/elementwise/activation_functors.hpp"
#include "layers/layer_builder.hpp"

namespace omni {

Activation read_activation(OptionReader& options, std::string_view fallback);
std::string fused_name(Activation activation);  // " relu"; "" for linear

class ActivationBlock {
 public:
  ActivationBlock() = default;
  // Reads the key.
  ActivationBlock(LayerBuilder& builder, std::string_view fallback, Extent extent);

  Activation kind() const { return kind_; }
  // The activation that the layer's own task applies, and the tensors that this task writes.
  Activation fused() const { return before_.empty() ? kind_ : Activation::linear; }
  const std::vector<Tensor*>& targets(const Blob& output) const {
    return before_.empty() ? output.value : before_;
  }
  const Tensor& target(const Blob& output, int slice) const { return *targets(output)[slice]; }

  // The gradient depends on the sign of the output only.
  bool allows_dropout_in_place() const;

  // The activation as a task of its own, if needed; `count` values.
  void forward(std::int64_t count, const Blob& output, int slice, TaskTag tag) const;
  // Turns the gradient of the output into that of the activation's input, in place.
  void backward(std::int64_t count, const Blob& output, int slice, TaskTag tag) const;
  // The same, with the bias's gradient in the same pass: for a slice whose sum no other slice uses.
  void backward(std::int64_t count, const Blob& output, int slice, const Tensor& diff_bias,
                TaskTag tag) const;

 private:
  Activation kind_ = Activation::linear;
  std::vector<Tensor*> before_;  // by slice; empty where the gradient needs only the output
};

}  // namespace omni
