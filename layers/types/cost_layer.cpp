// [cost] of old cfgs: squared error against the one-hot truth. After [softmax] it is dropped by the
// net, since softmax computes its own loss.
#include "codelets/loss/sse_loss.hpp"
#include "layers/registry.hpp"

namespace omni {
namespace {

class CostLayer final : public Layer {
 public:
  explicit CostLayer(LayerBuilder& builder) : Layer(builder) {
    static constexpr std::string_view kTypes[] = {"sse"};
    builder.options().choice("type", "sse", kTypes);
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
    SseLossArgs args = args_;
    args.n = images(slice);
    const auto at = static_cast<std::size_t>(slice);
    const bool gradient = step.training && input().wants_gradient();
    submit_sse_loss(args, input().value(slice), *step.slot->labels[at], *step.slot->metrics[at],
                    gradient ? &input().gradient(slice) : nullptr, forward_tag(slice));
  }
  void backward(const Step&, int) override {}

 private:
  SseLossArgs args_;
};

const LayerRegistration registration({.name = "cost",
                                      .aliases = {},
                                      .summary = "squared error loss; ignored after [softmax]",
                                      .keys = {{"type", "sse", "sse"},
                                               {"scale", "1", "multiplies loss and gradient"},
                                               {"ratio", "0", "", true},
                                               {"noobj", "1", "", true},
                                               {"thresh", "0", "", true}},
                                      .make = make_layer<CostLayer>});

}  // namespace
}  // namespace omni
