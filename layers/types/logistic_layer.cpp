// [logistic]: a probability per class, each for itself, and logistic cross-entropy as the loss; the
// last layer.
#include "codelets/elementwise/activation.hpp"
#include "codelets/loss/logistic_loss.hpp"
#include "layers/registry.hpp"

namespace omni {
namespace {

class LogisticLayer final : public Layer {
 public:
  explicit LogisticLayer(LayerBuilder& builder) : Layer(builder) {
    inputs_ = static_cast<int>(builder.input().extent().count());
    output_ = builder.float_blob("output", {1, 1, inputs_});
  }

  bool is_loss() const override { return true; }
  double forward_flops_per_image() const override { return 3.0 * inputs_; }

  // The loss, and in training its gradient, follow at once: the labels are there.
  void forward(const Step& step, int slice) override {
    submit_forward(activation_forward, {.count = values(slice), .activation = Activation::logistic},
                   slice);
    const auto at = static_cast<std::size_t>(slice);
    const bool gradient = step.training && input().wants_gradient();
    submit_logistic_loss({.n = images(slice), .inputs = inputs_}, input().value(slice),
                         *step.slot->labels[at], *step.slot->metrics[at],
                         gradient ? &input().gradient(slice) : nullptr, forward_tag(slice));
  }
  void backward(const Step&, int) override {}

 private:
  int inputs_ = 0;
};

const LayerRegistration logistic_registration(
    {.name = "logistic",
     .summary = "a probability per class and logistic cross-entropy loss; the last layer",
     .make = make_layer<LogisticLayer>});

}  // namespace
}  // namespace omni
