// [softmax]: class probabilities, and cross-entropy as the loss when it is the last layer.
#include <fmt/format.h>

#include "codelets/loss/softmax_loss.hpp"
#include "layers/registry.hpp"

namespace omni {
namespace {

class SoftmaxLayer final : public Layer {
 public:
  explicit SoftmaxLayer(LayerBuilder& builder) : Layer(builder) {
    OptionReader& options = builder.options();
    const Extent extent = builder.input().extent();
    args_.inputs = static_cast<int>(extent.count());
    args_.groups = options.integer("groups", 1, 1);
    args_.temperature = options.real("temperature", 1, 1e-6f);
    loss_ = !options.flag("noloss", false);
    smoothing_ = builder.label_smoothing();
    if (!loss_ && builder.training())
      options.refuse("noloss", "a softmax without loss cannot be trained",
                     "remove noloss: it computes cross-entropy then");
    if (options.flag("spatial", false) && extent.h * extent.w > 1)
      options.refuse("spatial",
                     fmt::format("a distribution for each of {}x{} pixels is not supported",
                                 extent.w, extent.h),
                     "an image has one label; add [avgpool] before it");
    if (args_.inputs % args_.groups != 0)
      options.refuse(
          "groups",
          fmt::format("{} values do not divide into {} groups", args_.inputs, args_.groups),
          "use a divisor");
    if (builder.training() && args_.groups > 1)
      options.warn("groups",
                   "above 1: only the group of the label learns from an image; in Darknet the "
                   "others are pushed to 0, too");
    if (builder.training() && args_.temperature != 1)
      options.warn("temperature",
                   "divides the gradient, too, which is the loss's own; in Darknet it does not "
                   "(a rate as many times as large makes the same steps)");
    output_ = builder.float_blob("output", {1, 1, args_.inputs});
  }

  bool is_loss() const override { return loss_; }
  double forward_flops_per_image() const override { return 3.0 * args_.inputs; }

  // The loss, and in training its gradient, follow at once: the labels are there.
  void forward(const Step& step, int slice) override {
    const SoftmaxArgs args = with_images(args_, images(slice));
    submit_forward(softmax_forward, args, slice);
    if (!loss_) return;
    const auto at = static_cast<std::size_t>(slice);
    const bool gradient = step.training && input().wants_gradient();
    submit_cross_entropy({.n = args.n,
                          .inputs = args.inputs,
                          .groups = args.groups,
                          .temperature = args.temperature,
                          .smoothing = step.training ? smoothing_ : 0},
                         input().value(slice), value(slice), *step.slot->labels[at],
                         *step.slot->metrics[at], gradient ? &input().gradient(slice) : nullptr,
                         forward_tag(slice));
  }
  void backward(const Step&, int) override {}

 private:
  SoftmaxArgs args_;
  bool loss_ = true;
  float smoothing_ = 0;
};

const LayerRegistration softmax_registration(
    {.name = "softmax",
     .aliases = {"soft"},
     .summary = "class probabilities and cross-entropy loss; the last layer",
     .keys = {{"groups", "1", "independent distributions per image"},
              {"temperature", "1", "divides the inputs"},
              {"spatial", "0", "1 is refused unless the input is 1x1"},
              {"noloss", "0", "1: only probabilities, the net cannot be trained"},
              {"tree", "", "trees of classes are not read", Effect::refused}},
     .make = make_layer<SoftmaxLayer>});

}  // namespace
}  // namespace omni
