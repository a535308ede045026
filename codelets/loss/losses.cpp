// This file has the losses on cores, which run the reference kernels, and the check of labels.
#include <fmt/format.h>

#include <stdexcept>

#include "codelets/loss/cost_loss.hpp"
#include "codelets/loss/label_counts.hpp"
#include "codelets/loss/label_metrics.hpp"
#include "codelets/loss/logistic_loss.hpp"
#include "codelets/loss/softmax.hpp"
#include "codelets/loss/target_loss.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

constexpr std::uint32_t kLossColor = 0xd62728;

// Returns the cost. With a gradient there are different operations, and one more tensor is written.
template <int flops, int bytes, int flops_with_gradient, class Args>
Cost loss_cost(const Args& args) {
  return args.gradient ? cost_per_value<flops_with_gradient, bytes + 4>(args)
                       : cost_per_value<flops, bytes>(args);
}

std::uint64_t cross_entropy_footprint(const CrossEntropyArgs& args) {
  return footprint_of(args.n, args.inputs, args.groups, args.smoothing > 0, args.gradient);
}

std::uint64_t target_loss_footprint(const TargetLossArgs& args) {
  return footprint_of(args.n, args.inputs, args.logistic, args.columns > 1, args.of_labels,
                      args.gradient, args.target_gradient);
}

}  // namespace

int checked_label(std::int32_t label, int classes, int image) {
  if (label >= 0 && label < classes) return label;
  throw std::runtime_error(
      fmt::format("label {} of image {} of the slice is out of range: the net has {} outputs",
                  label, image, classes));
}

// An exponential counts as 16 operations. The gradient of the logistic loss needs a second
// exponential.
Codelet<SoftmaxArgs> softmax_forward({
    .name = "softmax_forward",
    .color = kLossColor,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(softmax_forward)},
    .cost = cost_per_value<20, 8>,
    .footprint = footprint_by<&SoftmaxArgs::n, &SoftmaxArgs::inputs, &SoftmaxArgs::groups>,
});

Codelet<CrossEntropyArgs> cross_entropy({
    .name = "cross_entropy",
    .color = kLossColor,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(cross_entropy)},
    .cost = loss_cost<20, 8, 20>,
    .footprint = cross_entropy_footprint,
});

void submit_cross_entropy(CrossEntropyArgs args, const Tensor& logits, const Tensor& probabilities,
                          const Tensor& labels, const Tensor& metrics, const Tensor* diff,
                          TaskTag tag) {
  args.gradient = diff != nullptr;
  cross_entropy.submit(
      args, {read(logits), read(probabilities), read(labels), write(metrics), if_any(write, diff)},
      tag);
}

Codelet<LogisticLossArgs> logistic_loss({
    .name = "logistic_loss",
    .color = kLossColor,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(logistic_loss)},
    .cost = loss_cost<20, 4, 40>,
    .footprint =
        footprint_by<&LogisticLossArgs::n, &LogisticLossArgs::inputs, &LogisticLossArgs::gradient>,
});

Codelet<CostLossArgs> cost_loss({
    .name = "cost_loss",
    .color = kLossColor,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(cost_loss)},
    .cost = loss_cost<4, 4, 4>,
    .footprint = footprint_by<&CostLossArgs::n, &CostLossArgs::inputs, &CostLossArgs::distance,
                              &CostLossArgs::gradient>,
});

Codelet<AddedLossArgs> add_loss({
    .name = "add_loss",
    .color = kLossColor,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(add_loss)},
    .cost = [](const AddedLossArgs&) -> Cost { return {.flops = 1, .bytes = 16}; },
    .footprint = footprint_by<&AddedLossArgs::place>,
});

Codelet<LabelCountArgs> count_labels({
    .name = "count_labels",
    .color = kLossColor,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(count_labels)},
    .cost = [](const LabelCountArgs& args) -> Cost {
      return {3.0 * args.n, 4.0 * args.n};
    },
    .footprint = footprint_by<&LabelCountArgs::n>,
});

Codelet<LossMeanArgs> scale_loss({
    .name = "scale_loss",
    .color = kLossColor,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(scale_loss)},
    .cost = loss_cost<0, 0, 1>,
    .footprint = footprint_by<&LossMeanArgs::n, &LossMeanArgs::inputs, &LossMeanArgs::gradient>,
});

void submit_scale_loss(LossMeanArgs args, const Tensor& counts, const Tensor& metrics,
                       const Tensor* diff, TaskTag tag) {
  args.gradient = args.of_labelled && diff != nullptr;
  scale_loss.submit(
      args, {read(counts), read_write(metrics), if_any(read_write, args.gradient ? diff : nullptr)},
      tag);
}

Codelet<TargetLossArgs> target_loss({
    .name = "target_loss",
    .color = kLossColor,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(target_loss)},
    .cost =
        [](const TargetLossArgs& args) {
          return args.logistic ? loss_cost<20, 8, 40>(args) : loss_cost<4, 8, 6>(args);
        },
    .footprint = target_loss_footprint,
});

void submit_target_loss(TargetLossArgs args, const Tensor& src, const Tensor* target,
                        const Tensor& labels, const Tensor& metrics, const Tensor* diff,
                        const Tensor* diff_target, TaskTag tag) {
  args.of_labels = target == nullptr;
  args.gradient = diff != nullptr;
  args.target_gradient = diff_target != nullptr;
  target_loss.submit(args,
                     {read(src), read(labels), write(metrics), if_any(read, target),
                      if_any(write, diff), if_any(write, diff_target)},
                     tag);
}

}  // namespace omni
