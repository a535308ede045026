// The losses: [softmax], [logistic] and [cost]. One of them is the last layer of a net that learns.
// A [cost] after [softmax], as in old cfgs, is dropped, because [softmax] computes its own loss.
#include <fmt/format.h>

#include "codelets/elementwise/activation.hpp"
#include "codelets/loss/cost_loss.hpp"
#include "codelets/loss/label_metrics.hpp"
#include "codelets/loss/logistic_loss.hpp"
#include "codelets/loss/softmax.hpp"
#include "layers/layer_builder.hpp"

namespace omni {
namespace {

// The base of all losses. forward() also computes the loss, and in training its gradient, since it
// has the labels.
class LossLayer : public Layer {
 public:
  using Layer::Layer;
  bool is_loss() const override { return true; }
  double forward_flops_per_image() const override { return 3 * values_per_image(); }
  void backward(const Step&, int) override {}

 protected:
  static const Tensor& labels(const Step& step, int slice) { return *step.slot->labels[slice]; }
  static const Tensor& metrics(const Step& step, int slice) { return *step.slot->metrics[slice]; }
  const Tensor* gradient(const Step& step, int slice) const {
    return step.training && input().wants_gradient() ? &input().gradient(slice) : nullptr;
  }
};

class SoftmaxLayer final : public LossLayer {
 public:
  explicit SoftmaxLayer(LayerBuilder& builder) : LossLayer(builder) {
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
  void forward(const Step& step, int slice) override {
    const SoftmaxArgs args = with_images(args_, images(slice));
    submit_forward(softmax_forward, args, slice);
    if (!loss_) return;
    submit_cross_entropy({.n = args.n,
                          .inputs = args.inputs,
                          .groups = args.groups,
                          .temperature = args.temperature,
                          .smoothing = step.training ? smoothing_ : 0},
                         input().value(slice), value(slice), labels(step, slice),
                         metrics(step, slice), gradient(step, slice), forward_tag(slice));
  }

 private:
  SoftmaxArgs args_;
  bool loss_ = true;
  float smoothing_ = 0;
};

// Every class has a probability, independent of the others.
class LogisticLayer final : public LossLayer {
 public:
  explicit LogisticLayer(LayerBuilder& builder) : LossLayer(builder) {
    args_.inputs = static_cast<int>(builder.input().extent().count());
    output_ = builder.float_blob("output", {1, 1, args_.inputs});
  }

  void forward(const Step& step, int slice) override {
    submit_forward(activation_forward, {.count = values(slice), .activation = Activation::logistic},
                   slice);
    submit_loss(logistic_loss, with_images(args_, images(slice)), input().value(slice),
                labels(step, slice), metrics(step, slice), gradient(step, slice),
                forward_tag(slice));
  }

 private:
  LogisticLossArgs args_;
};

// The loss is the distance from the one-hot label.
class CostLayer final : public LossLayer {
 public:
  explicit CostLayer(LayerBuilder& builder) : LossLayer(builder) {
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
    output_ =
        *predictions
             .blob;  // the net's output is that of its last layer, so predictions pass through
  }

  void forward(const Step& step, int slice) override {
    submit_loss(cost_loss, with_images(args_, images(slice)), input().value(slice),
                labels(step, slice), metrics(step, slice), gradient(step, slice),
                forward_tag(slice));
  }

 private:
  CostLossArgs args_;
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

const LayerRegistration logistic_registration(
    {.name = "logistic",
     .summary = "a probability per class and logistic cross-entropy loss; the last layer",
     .make = make_layer<LogisticLayer>});

const LayerRegistration cost_registration(
    {.name = "cost",
     .summary = "distance from the truth as the loss; ignored after [softmax]",
     .keys = {{"type", "sse", "sse smooth L1"}, {"scale", "1", "multiplies loss and gradient"}},
     .in_vain = "ratio=0 noobj=1 thresh=0",
     .make = make_layer<CostLayer>});

}  // namespace
}  // namespace omni
