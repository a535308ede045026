// [activation]: an element-wise function on its own.

#include "codelets/elementwise/activation.hpp"
#include "codelets/spatial/copy_channels.hpp"
#include "layers/registry.hpp"
#include "layers/types/blocks/activation_block.hpp"

namespace omni {
namespace {

class ActivationLayer final : public Layer {
 public:
  explicit ActivationLayer(LayerBuilder& builder) : Layer(builder) {
    activation_ = read_activation(builder.options(), "linear");
    output_ = builder.blob("output", builder.input().extent());
  }

  std::string detail() const override { return std::string(activation_name(activation_)); }
  double forward_flops_per_image() const override { return values_per_image(); }
  void forward(const Step&, int slice) override {
    if (activation_ == Activation::linear)
      return submit_copy(values(slice), input().value(slice), value(slice), forward_tag(slice));
    submit_forward(activation_forward, {.count = values(slice), .activation = activation_}, slice);
  }
  // In place on the output's gradient, which is then the input's.
  void backward(const Step&, int slice) override {
    if (!input().wants_gradient()) return;
    const TaskTag tag = data_gradient_tag(slice);
    if (activation_ != Activation::linear)
      activation_backward.submit(
          {.count = values(slice), .activation = activation_},
          {read(gradient_needs_input(activation_) ? input().value(slice) : value(slice)),
           read_write(diff(slice))},
          tag);
    submit_copy(values(slice), diff(slice), input().gradient(slice), tag);
  }

 private:
  Activation activation_;
};

const LayerRegistration activation_registration({.name = "activation",
                                                 .summary = "an element-wise function",
                                                 .keys = {{"activation", "linear", "its name"}},
                                                 .make = make_layer<ActivationLayer>});

}  // namespace
}  // namespace omni
