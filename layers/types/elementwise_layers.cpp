// An activation layer applies an element-wise function. In training a dropout layer drops each
// value with a probability, and scales the others up; in evaluation it does nothing.
#include <fmt/format.h>

#include "codelets/elementwise/activation.hpp"
#include "codelets/elementwise/dropout.hpp"
#include "codelets/spatial/copy_channels.hpp"
#include "layers/layer_builder.hpp"
#include "layers/types/blocks/output_blocks.hpp"

namespace omni {
namespace {

class ActivationLayer final : public Layer {
 public:
  explicit ActivationLayer(LayerBuilder& builder) : Layer(builder) {
    activation_ = builder.options<ActivationOptions>().activation;
    output_ = builder.blob("output", builder.input().extent());
  }

  std::string detail() const override { return std::string(activation_name(activation_)); }
  double forward_flops_per_image() const override { return values_per_image(); }
  void forward(const Step&, int slice) override {
    if (activation_ == Activation::linear)
      return submit_copy(values(slice), input().value(slice), value(slice), forward_tag(slice));
    submit_forward(activation_forward, {.count = values(slice), .activation = activation_}, slice);
  }
  // The backward task works in place: it changes the output's gradient to the input's.
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
                                                 .make = make_layer<ActivationLayer>});

class DropoutLayer final : public Layer {
 public:
  explicit DropoutLayer(LayerBuilder& builder) : Layer(builder) {
    const Extent extent = builder.input().extent();
    probability_ = builder.options<DropoutOptions>().probability;
    output_ = builder.blob("output", extent);
  }

  std::string detail() const override { return fmt::format("p = {:g}", probability_); }
  std::string in_one_task() const override { return in_place_ ? "in place" : ""; }
  double forward_flops_per_image() const override { return values_per_image(); }
  bool work_in_place(const Layer& before) override {
    return in_place_ = before.allows_dropout_in_place();
  }
  void forward(const Step& step, int slice) override {
    const TaskTag tag = forward_tag(slice);
    if (!in_place_) submit_copy(values(slice), input().value(slice), value(slice), tag);
    if (step.training && probability_ > 0)
      dropout_forward.submit(args(step, slice), {read_write(value(slice))}, tag);
  }
  void backward(const Step& step, int slice) override {
    if (!input().wants_gradient()) return;
    const TaskTag tag = data_gradient_tag(slice);
    if (probability_ > 0)
      dropout_backward.submit(args(step, slice), {read_write(diff(slice))}, tag);
    if (!in_place_) submit_copy(values(slice), diff(slice), input().gradient(slice), tag);
  }

 private:
  DropoutArgs args(const Step& step, int slice) const {
    return {.n = images(slice),
            .per_sample = static_cast<std::int64_t>(output_.extent.count()),
            .probability = probability_,
            .layer = index(),
            .seed = step.seed,
            .first_sample = first_sample(step, slice)};
  }
  float probability_;
  bool in_place_ = false;  // true: the layer before has this layer's output tensor
};

const LayerRegistration dropout_registration({.name = "dropout", .make = make_layer<DropoutLayer>});

}  // namespace
}  // namespace omni
