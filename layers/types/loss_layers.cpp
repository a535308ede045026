// The losses are softmax, logistic, cost and target. A net that is trained has one of them as its
// last layer.
#include <fmt/format.h>

#include "codelets/elementwise/activation.hpp"
#include "codelets/loss/cost_loss.hpp"
#include "codelets/loss/label_counts.hpp"
#include "codelets/loss/label_metrics.hpp"
#include "codelets/loss/logistic_loss.hpp"
#include "codelets/loss/softmax.hpp"
#include "codelets/loss/target_loss.hpp"
#include "codelets/spatial/planes.hpp"
#include "layers/layer_builder.hpp"

namespace omni {
namespace {

// LossLayer is the base of all losses. forward() also computes the loss, and in training its
// gradient, since it has the labels. In training the metrics of the last loss hold the sum of all
// losses. Labels count the values of an image channel by channel, as files of nets do.
class LossLayer : public Layer {
 public:
  explicit LossLayer(LayerBuilder& builder, bool judges_labels = true)
      : Layer(builder), weight_(builder.described().loss_weight) {
    if (const Extent of = builder.extent(); judges_labels && of.h * of.w > 1 && of.c > 1)
      planes_ = builder.float_blob("planes", {1, 1, static_cast<int>(of.count())});
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
  // Adds the auxiliary losses, the first number of their metrics, and notes each.
  void add_others(const Step& step, int slice) const {
    for (std::size_t i = 0; step.training && i < others_.size(); ++i)
      add_loss.submit({.place = static_cast<int>(kMetrics + i)},
                      {read(*others_[i][slice]), read_write(metrics(step, slice))},
                      forward_tag(slice));
  }
  // Returns what the labels judge. begin() has to be called before, and end() afterwards.
  const Tensor& scores(int slice) const {
    return is_planes() ? *planes_.value[slice] : input().value(slice);
  }
  const Tensor* gradient(const Step& step, int slice, std::size_t of = 0) const {
    if (!step.training || !input(of).wants_gradient()) return nullptr;
    return is_planes() ? planes_.diff[slice] : &input(of).gradient(slice);
  }
  void begin(int slice) const {
    if (is_planes())
      planes.submit(planes_args(slice), {read(input().value(slice)), write(scores(slice))},
                    forward_tag(slice));
  }
  void end(const Step& step, int slice) const {
    PlanesArgs args = planes_args(slice);
    args.to_planes = false;
    if (const Tensor* diff = gradient(step, slice); diff != nullptr && is_planes())
      planes.submit(args, {read(*diff), write(input().gradient(slice))}, forward_tag(slice));
    add_others(step, slice);
  }
  bool is_planes() const { return !planes_.value.empty(); }

  Blob planes_{};  // the values of an image in the labels' order; none: the input has it

 private:
  PlanesArgs planes_args(int slice) const {
    const Extent& of = input().extent();
    return {.n = images(slice), .pixels = of.h * of.w, .c = of.c};
  }
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
    mean_ = options.mean;
    ignored_ = {.in_loss = options.ignored, .in_accuracy = options.not_judged};
    if (builder.described().auxiliary) ignored_.in_accuracy = ignored_.in_loss;
    if (ignored_.any()) counts_ = &builder.tensor("label counts", kLabelCounts);
    if (ignored_.any() && slices().ranks > 1)
      builder.refuse("ignored", "an ignored label, and several ranks share a mini-batch",
                     "no rank knows all labels: give each rank a group, or train with one rank");
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
  float loss_weight() const override { return LossLayer::loss_weight() * multiple(); }
  IgnoredLabels ignored_labels() const override { return ignored_; }
  void forward(const Step& step, int slice) override {
    const SoftmaxArgs args = with_images(args_, images(slice));
    begin(slice);
    softmax_forward.submit(args, {read(scores(slice)), write(value(slice))}, forward_tag(slice));
    if (!loss_) return;
    if (counts_ != nullptr && slice == 0) count_all_labels(step);
    submit_cross_entropy({.n = args.n,
                          .inputs = args.inputs,
                          .groups = args.groups,
                          .temperature = args.temperature,
                          .smoothing = step.training ? smoothing_ : 0,
                          .weight = weight(step) * multiple(),
                          .ignored = ignored_},
                         scores(slice), value(slice), labels(step, slice), metrics(step, slice),
                         gradient(step, slice), forward_tag(slice));
    if (counts_ != nullptr)
      submit_scale_loss(
          {.n = args.n, .inputs = args.inputs, .of_labelled = mean_ == MeanLoss::of_labelled},
          *counts_, metrics(step, slice), gradient(step, slice), forward_tag(slice));
    end(step, slice);
  }

 private:
  // A sum over images is as many times their mean.
  float multiple() const {
    return mean_ == MeanLoss::none ? static_cast<float>(slices().images_of_all()) : 1;
  }
  void count_all_labels(const Step& step) const {
    for (int each = 0; each < slices().count(); ++each)
      count_labels.submit(
          {.n = images(each), .ignored = ignored_, .first = each == 0},
          {read(labels(step, each)), each == 0 ? write(*counts_) : read_write(*counts_)},
          forward_tag(each));
  }

  SoftmaxArgs args_;
  bool loss_ = true;
  float smoothing_ = 0;
  MeanLoss mean_ = MeanLoss::of_labelled;
  IgnoredLabels ignored_{};
  const Tensor* counts_ = nullptr;  // of the mini-batch's labels; null: every label counts
};

// In a LogisticLayer every class has a probability that is independent of the others.
class LogisticLayer final : public LossLayer {
 public:
  explicit LogisticLayer(LayerBuilder& builder) : LossLayer(builder) {
    args_.inputs = static_cast<int>(builder.input().extent().count());
    output_ = builder.float_blob("output", {1, 1, args_.inputs});
  }

  void forward(const Step& step, int slice) override {
    begin(slice);
    activation_forward.submit({.count = values(slice), .activation = Activation::logistic},
                              {read(scores(slice)), write(value(slice))}, forward_tag(slice));
    LogisticLossArgs args = with_images(args_, images(slice));
    args.weight = weight(step);
    submit_loss(logistic_loss, args, scores(slice), labels(step, slice), metrics(step, slice),
                gradient(step, slice), forward_tag(slice));
    end(step, slice);
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
    // The net's output is that of its last layer, so predictions pass through.
    output_ = is_planes() ? planes_ : *predictions.blob;
  }

  void forward(const Step& step, int slice) override {
    CostLossArgs args = with_images(args_, images(slice));
    args.scale *= weight(step);
    begin(slice);
    submit_loss(cost_loss, args, scores(slice), labels(step, slice), metrics(step, slice),
                gradient(step, slice), forward_tag(slice));
    end(step, slice);
  }

 private:
  CostLossArgs args_;
};

// In a TargetLayer the loss is the distance of a prediction from a target.
class TargetLayer final : public LossLayer {
 public:
  explicit TargetLayer(LayerBuilder& builder) : LossLayer(builder, false) {
    const auto& options = builder.options<TargetOptions>();
    const Blob& predictions = *builder.input().blob;
    const std::size_t values = predictions.extent.count();
    has_target_ = builder.inputs().size() > 1;
    // Only samples have no tensors yet. They are not kept as the net's output.
    if (predictions.value.front() == nullptr)
      builder.refuse("inputs", "the first input is data", "name the prediction first");
    args_.inputs = static_cast<int>(values);
    args_.logistic = options.logistic;
    if (options.mean) args_.weight = 1 / static_cast<float>(values);
    if (const std::size_t targets = has_target_ ? builder.extent(1).count() : 1; values != targets)
      builder.refuse(
          "inputs",
          fmt::format("compares {} value{} with {}", values, values == 1 ? "" : "s",
                      has_target_ ? fmt::format("{} of its target", targets) : "one label"),
          "both have as many values");
    if (has_target_) add_target(builder, options);
    output_ = predictions;
  }

  bool has_classes() const override { return false; }
  std::string detail() const override {
    return fmt::format("{} to {}", args_.logistic ? "logistic" : "squared",
                       has_target_ ? "a blob" : "the label");
  }
  void forward(const Step& step, int slice) override {
    TargetLossArgs args = with_images(args_, images(slice));
    args.weight *= weight(step);
    submit_target_loss(args, input().value(slice), has_target_ ? &input(1).value(slice) : nullptr,
                       labels(step, slice), metrics(step, slice), gradient(step, slice),
                       has_target_ ? gradient(step, slice, 1) : nullptr, forward_tag(slice));
    add_others(step, slice);
  }

 private:
  void add_target(LayerBuilder& builder, const TargetOptions& options) {
    const Extent &ours = builder.extent(0), &theirs = builder.extent(1);
    // A vector has the values of an image channel by channel; an image has its channels last.
    const auto is_vector = [](const Extent& of) { return of.c == 1 || (of.h == 1 && of.w == 1); };
    if (ours != theirs && !is_vector(ours) && !is_vector(theirs))
      builder.refuse("inputs",
                     fmt::format("compares {}x{}x{} values with {}x{}x{}", ours.w, ours.h, ours.c,
                                 theirs.w, theirs.h, theirs.c),
                     "images have to be of one size");
    else if (ours != theirs && !(is_vector(ours) && is_vector(theirs)))
      args_.columns = is_vector(ours) ? theirs.h * theirs.w : ours.c;
    if (!options.teaches_target) return void(builder.alias(1));
    if (options.logistic && builder.learns(1))
      builder.refuse("inputs", "layers that make the target have parameters",
                     "a logistic loss teaches no target: it has to be data");
    builder.input(1);
  }

  TargetLossArgs args_;
  bool has_target_ = false;
};

const LayerRegistration softmax_registration({.name = "softmax", .make = make_layer<SoftmaxLayer>});
const LayerRegistration logistic_registration({.name = "logistic",
                                               .make = make_layer<LogisticLayer>});
const LayerRegistration target_registration({.name = "target", .make = make_layer<TargetLayer>});
const LayerRegistration cost_registration({.name = "cost", .make = make_layer<CostLayer>});

}  // namespace
}  // namespace omni
