// With ignored labels, the mean loss and the share of right answers are over fewer images than a
// mini-batch has. These codelets count those images over all slices, then scale each slice's
// results. So sums over slices, divided by all images, give the same as means of Caffe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codelets/loss/label_metrics.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct LabelCountArgs {
  int n = 0;  // labels
  IgnoredLabels ignored{};
  bool first = false;  // true: the counts are overwritten, not added to
};

// An auxiliary loss is added to the net's own, and noted in its metrics at `place`.
struct AddedLossArgs {
  int place = kMetrics;
};

struct LossMeanArgs {
  int n = 0, inputs = 0;
  bool of_labelled = false;  // the loss is a mean over images with a loss; false: over all images
  bool gradient = false;     // the submit function sets it: there is a diff
};

// LabelCounts are stored as f32[3] in the order of the members.
struct LabelCounts {
  float images = 0, labelled = 0, judged = 0;  // labelled: have a loss; judged: for the accuracy

  // Returns the factor by which a sum over `counted` images grows. Caffe divides by 1 at least.
  OMNI_HD float factor(float counted) const { return images / (counted < 1 ? 1 : counted); }
};
inline constexpr std::size_t kLabelCounts = 3;

namespace reference {

template <class T>
void count_labels(const LabelCountArgs& args, const std::int32_t* labels, T* counts) {
  if (args.first) std::fill_n(counts, kLabelCounts, T{0});
  for (int image = 0; image < args.n; ++image) {
    if (labels[image] == kNoLabel) continue;
    counts[0] += 1;
    counts[1] += labels[image] != args.ignored.in_loss;
    counts[2] += labels[image] != args.ignored.in_accuracy;
  }
}

template <class T>
void scale_loss(const LossMeanArgs& args, const T* counts, T* metrics, T* diff) {
  const LabelCounts of{static_cast<float>(counts[0]), static_cast<float>(counts[1]),
                       static_cast<float>(counts[2])};
  const T loss = args.of_labelled ? of.factor(of.labelled) : 1, right = of.factor(of.judged);
  metrics[0] *= loss;
  metrics[1] *= right;
  metrics[2] *= right;
  for (std::int64_t i = 0; args.gradient && i < std::int64_t{args.n} * args.inputs; ++i)
    diff[i] *= loss;
}

template <class T>
void add_loss(const AddedLossArgs& args, const T* auxiliary, T* metrics) {
  metrics[0] += auxiliary[0];
  metrics[args.place] = auxiliary[0];
}

}  // namespace reference

OMNI_CODELET(AddedLossArgs, add_loss);       // {metrics of an auxiliary loss R, metrics RW}
OMNI_CODELET(LabelCountArgs, count_labels);  // {labels R, counts W if first, else RW}
OMNI_CODELET(LossMeanArgs, scale_loss);      // {counts R, metrics RW [, diff RW]}

// Submits scale_loss. `diff` is null outside of training.
void submit_scale_loss(LossMeanArgs args, const Tensor& counts, const Tensor& metrics,
                       const Tensor* diff, TaskTag tag = {});

}  // namespace omni
