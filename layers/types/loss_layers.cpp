// The losses are softmax, logistic and cost. A net that is trained has one of them as its last
// layer.
#include <fmt/format.h>

#include "codelets/elementwise/accumulate.hpp"
#include "codelets/elementwise/activation.hpp"
#include "codelets/loss/cost_loss.hpp"
#include "codelets/loss/label_metrics.hpp"
#include "codelets/loss/logistic_loss.hpp"
#include "codelets/loss/softmax.hpp"
#include "layers/layer_builder.hpp"

namespace omni {
namespace {

// LossLayer is the base of all losses. forward() also computes the loss, and in training its
// gradient, since it has the labels. In training the metrics of the last loss hold the sum of all
// losses.
class LossLayer : public Layer {
 public:
  explicit LossLayer(LayerBuilder& builder)
      : Layer(builder), weight_(builder.described().loss_weight) {
    if (builder.described().auxiliary)
      own_metrics_ = builder.auxiliary_metrics();
    else
      others_ = builder.all_auxiliary_metrics();
  }
  bool is_loss() const override { return true; }
  float loss_weight() const override { return weight_; }
  double forward_flops_per_image() const override { return 3 * values_per_image(); }
  void backward(const Step&, int) override {}

 protected:
  static const Tensor& labels(const Step& step, int slice) { return *step.slot->labels[slice]; }
  const Tensor& metrics(const Step& step, int slice) const {
    return own_metrics_.empty() ? *step.slot->metrics[slice] : *own_metrics_[slice];
  }
  float weight(const Step& step) const { return step.training ? weight_ : 1; }
  // Adds the auxiliary losses, the first number of their metrics.
  void add_others(const Step& step, int slice) const {
    if (!step.training) return;
    for (const std::vector<Tensor*>& other : others_)
      accumulate_sum.submit({.count = 1}, {accumulate(metrics(step, slice)), read(*other[slice])},
                            forward_tag(slice));
  }
  const Tensor* gradient(const Step& step, int slice) const {
    return step.training && input().wants_gradient() ? &input().gradient(slice) : nullptr;
  }

 private:
  float weight_;
  std::vector<Tensor*> own_metrics_;          // by slice; none: they are the mini-batch's
  std::vector<std::vector<Tensor*>> others_;  // metrics of auxiliary losses
};

class SoftmaxLayer final : public LossLayer {
 public:
  explicit SoftmaxLayer(LayerBuilder& builder) : LossLayer(builder) {
    const auto& options = builder.options<SoftmaxOptions>();
    const Extent extent = builder.input().extent();
    args_.inputs = static_cast<int>(extent.count());
    args_.groups = options.groups;
    args_.temperature = options.temperature;
    loss_ = options.loss;
    smoothing_ = options.smoothing;
    if (!loss_ && builder.training())
      builder.refuse("loss", "a softmax without loss cannot be trained",
                     "without this option it computes cross-entropy");
    if (options.spatial && extent.h * extent.w > 1)
      builder.refuse("spatial",
                     fmt::format("a distribution for each of {}x{} pixels is not supported",
                                 extent.w, extent.h),
                     "an image has one label; put an average pooling layer before it");
    if (args_.inputs % args_.groups != 0)
      builder.refuse(
          "groups",
          fmt::format("{} values do not divide into {} groups", args_.inputs, args_.groups),
          "use a divisor");
    output_ = builder.float_blob("output", {1, 1, args_.inputs});
  }

  bool is_loss() const override { return loss_; }
  float label_smoothing() const override { return smoothing_; }
  void forward(const Step& step, int slice) override {
    const SoftmaxArgs args = with_images(args_, images(slice));
    submit_forward(softmax_forward, args, slice);
    if (!loss_) return;
    submit_cross_entropy({.n = args.n,
                          .inputs = args.inputs,
                          .groups = args.groups,
                          .temperature = args.temperature,
                          .smoothing = step.training ? smoothing_ : 0,
                          .weight = weight(step)},
                         input().value(slice), value(slice), labels(step, slice),
                         metrics(step, slice), gradient(step, slice), forward_tag(slice));
    add_others(step, slice);
  }

 private:
  SoftmaxArgs args_;
  bool loss_ = true;
  float smoothing_ = 0;
};

// In a LogisticLayer every class has a probability that is independent of the others.
class LogisticLayer final : public LossLayer {
 public:
  explicit LogisticLayer(LayerBuilder& builder) : LossLayer(builder) {
    args_.inputs = static_cast<int>(builder.input().extent().count());
    output_ = builder.float_blob("output", {1, 1, args_.inputs});
  }

  void forward(const Step& step, int slice) override {
    submit_forward(activation_forward, {.count = values(slice), .activation = Activation::logistic},
                   slice);
    LogisticLossArgs args = with_images(args_, images(slice));
    args.weight = weight(step);
    submit_loss(logistic_loss, args, input().value(slice), labels(step, slice),
                metrics(step, slice), gradient(step, slice), forward_tag(slice));
    add_others(step, slice);
  }

 private:
  LogisticLossArgs args_;
};

// In a CostLayer the loss is the distance of the output from the one-hot label.
class CostLayer final : public LossLayer {
 public:
  explicit CostLayer(LayerBuilder& builder) : LossLayer(builder) {
    args_.distance = builder.options<DistanceOptions>().distance;
    args_.scale = builder.options<DistanceOptions>().scale;
    if (index() == 0) builder.refuse("", "there is no output to judge", "add layers above");
    const Input& predictions = builder.input();
    args_.inputs = static_cast<int>(predictions.extent().count());
    const bool hinges = args_.distance >= Distance::hinge;
    if (const Extent& of = predictions.extent(); hinges && (of.h > 1 || of.w > 1))
      builder.refuse("inputs", fmt::format("a hinge loss of {}x{} pixels", of.w, of.h),
                     "it is of one value per class: read an InnerProduct");
    output_ =
        *predictions
             .blob;  // the net's output is that of its last layer, so predictions pass through
  }

  void forward(const Step& step, int slice) override {
    CostLossArgs args = with_images(args_, images(slice));
    args.scale *= weight(step);
    submit_loss(cost_loss, args, input().value(slice), labels(step, slice), metrics(step, slice),
                gradient(step, slice), forward_tag(slice));
    add_others(step, slice);
  }

 private:
  CostLossArgs args_;
};

const LayerRegistration softmax_registration({.name = "softmax", .make = make_layer<SoftmaxLayer>});
const LayerRegistration logistic_registration({.name = "logistic",
                                               .make = make_layer<LogisticLayer>});
const LayerRegistration cost_registration({.name = "cost", .make = make_layer<CostLayer>});

}  // namespace
}  // namespace omni
