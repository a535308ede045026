// The `activation` key, and how a layer ends in one. Mostly the layer's own task applies it, in
// place. An activation whose gradient needs its input is a task of its own: the layer then keeps
// the values before it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codelets/elementwise/activation_functors.hpp"
#include "layers/layer_builder.hpp"

namespace omni {

Activation read_activation(OptionReader& options, std::string_view fallback);
std::string comma_name(Activation activation);  // ", relu"; "" for linear

class ActivationBlock {
 public:
  ActivationBlock() = default;
  // Reads the key.
  ActivationBlock(LayerBuilder& builder, std::string_view fallback, Extent extent);

  Activation kind() const { return kind_; }
  // What the layer's own task applies, and by slice what it writes.
  Activation fused() const { return before_.empty() ? kind_ : Activation::linear; }
  const std::vector<Tensor*>& targets(const Blob& output) const {
    return before_.empty() ? output.value : before_;
  }
  const Tensor& target(const Blob& output, int slice) const {
    return *targets(output)[static_cast<std::size_t>(slice)];
  }

  // The gradient looks at no more of the output than whether it is above zero.
  bool allows_dropout_in_place() const;

  // After that task. count: the slice's values.
  void forward(std::int64_t count, const Blob& output, int slice, TaskTag tag) const;
  // In place on the output's gradient.
  void backward(std::int64_t count, const Blob& output, int slice, TaskTag tag) const;
  // And the bias's gradient in the same pass, for a slice that adds to it alone: others would wait
  // for their turn.
  void backward(std::int64_t count, const Blob& output, int slice, const Tensor& diff_bias,
                TaskTag tag) const;

 private:
  Activation kind_ = Activation::linear;
  std::vector<Tensor*> before_;  // by slice; empty where the gradient needs only the output
};

}  // namespace omni
