// [cost] of old cfgs: the distance from the one-hot truth. After [softmax] it is dropped by the
// net, since softmax computes its own loss.
#include "codelets/loss/cost_loss.hpp"
#include "layers/registry.hpp"

namespace omni {
namespace {

class CostLayer final : public Layer {
 public:
  explicit CostLayer(LayerBuilder& builder) : Layer(builder) {
    static constexpr std::string_view kTypes[] = {"sse", "smooth", "L1"};  // in Distance's order
    builder.options().refuse_values("type", {"masked"},
                                    "it leaves out unknown truths, which a label does not have");
    builder.options().refuse_values("type", {"seg", "wgan"}, "it is no loss of a classifier");
    args_.distance = static_cast<Distance>(builder.options().choice("type", "sse", kTypes));
    args_.scale = builder.options().real("scale", 1, 0);
    if (index() == 0)
      builder.options().refuse("", "[cost] has nothing to judge", "add layers above");
    const Input& predictions = builder.input();
    args_.inputs = static_cast<int>(predictions.extent().count());
    output_ = *predictions.blob;  // they pass through: the net's output is the last layer's
  }

  bool is_loss() const override { return true; }
  double forward_flops_per_image() const override { return 3.0 * args_.inputs; }

  void forward(const Step& step, int slice) override {
    const auto at = static_cast<std::size_t>(slice);
    const bool gradient = step.training && input().wants_gradient();
    submit_cost_loss(with_images(args_, images(slice)), input().value(slice),
                     *step.slot->labels[at], *step.slot->metrics[at],
                     gradient ? &input().gradient(slice) : nullptr, forward_tag(slice));
  }
  void backward(const Step&, int) override {}

 private:
  CostLossArgs args_;
};

const LayerRegistration cost_registration(
    {.name = "cost",
     .summary = "distance from the truth as the loss; ignored after [softmax]",
     .keys = {{"type", "sse", "sse smooth L1"}, {"scale", "1", "multiplies loss and gradient"}},
     .in_vain = "ratio=0 noobj=1 thresh=0",
     .make = make_layer<CostLayer>});

}  // namespace
}  // namespace omni
