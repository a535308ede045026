// Every loss computes the gradient and the metrics of a slice: the sum of losses, and how many
// images are right. A place with the label kNoLabel has no image: it has no loss and no gradient,
// and is not counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/slices.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

// IgnoredLabels have no loss and no gradient, or do not count for the accuracy. kNoLabel: there is
// none. A label that both ignore need not be a class.
struct IgnoredLabels {
  int in_loss = kNoLabel, in_accuracy = kNoLabel;

  OMNI_HD bool any() const { return in_loss != kNoLabel || in_accuracy != kNoLabel; }
  OMNI_HD bool by_both(int label) const { return label == in_loss && label == in_accuracy; }
};

inline constexpr int kNotJudged = std::numeric_limits<int>::max();  // a rank: is never right

// LabelMetrics are stored as f32[4] in the order of the members.
struct LabelMetrics {
  double loss = 0;         // sum over the images
  int top1 = 0, top5 = 0;  // images whose label is the best class, or one of the five best
  int images = 0;          // that count

  // Counts an image whose label has the rank `rank`, from 0.
  constexpr void count(int rank) {
    top1 += rank < 1;
    top5 += rank < 5;
    ++images;
  }
  template <class T>
  constexpr void store(T* metrics) const {
    metrics[0] = static_cast<T>(loss);
    metrics[1] = static_cast<T>(top1);
    metrics[2] = static_cast<T>(top5);
    metrics[3] = static_cast<T>(images);
  }
};

// Returns whether a class with this value ranks before the label, whose value is `own`. Among equal
// values the lower index comes first, so a constant output is not always right. A label whose value
// is NaN ranks last, so a diverged net is never right.
template <class T>
constexpr bool comes_before(T value, T own, bool lower_index) {
  return lower_index ? !(value < own) : !(value <= own);
}

// Returns how many classes rank before the label.
template <class T>
int label_rank(const T* values, int classes, int label) {
  const T own = values[label];
  int before = 0;
  for (int i = 0; i < label; ++i) before += comes_before(values[i], own, true);
  for (int i = label + 1; i < classes; ++i) before += comes_before(values[i], own, false);
  return before;
}

// Returns the label of an image. Throws if it is none of the classes.
int checked_label(std::int32_t label, int classes, int image);

// Calls judge(sums, label, x, d) for n images, and stores the sums. x points to an image's values.
// d points to its gradient, or is null if `diff` is. Places without an image get the gradient 0.
// The loss and the gradients are multiplied by `weight`. judge() decides about labels that only
// the loss or only the accuracy ignores.
template <class T, class Judge>
void judge_images(int n, int inputs, float weight, const T* src, const std::int32_t* labels,
                  T* metrics, T* diff, Judge judge, IgnoredLabels ignored = {}) {
  LabelMetrics sums;
  for (int image = 0; image < n; ++image) {
    const std::int64_t first = std::int64_t{image} * inputs;
    T* d = diff != nullptr ? diff + first : nullptr;
    if (labels[image] != kNoLabel && !ignored.by_both(labels[image])) {
      judge(sums, checked_label(labels[image], inputs, image), src + first, d);
      continue;
    }
    if (labels[image] != kNoLabel) sums.count(kNotJudged);
    if (d != nullptr) std::fill_n(d, inputs, T{0});
  }
  if (weight != 1) {
    sums.loss *= static_cast<double>(weight);
    for (std::int64_t i = 0; diff != nullptr && i < std::int64_t{n} * inputs; ++i)
      diff[i] *= static_cast<T>(weight);
  }
  sums.store(metrics);
}

// Submits a loss with the buffers {src R, labels R, metrics W [, diff W]}. `labels` are i32[n], and
// `metrics` are f32[4] as in LabelMetrics. `diff` is null outside of training.
template <class Args>
void submit_loss(Codelet<Args>& loss, Args args, const Tensor& src, const Tensor& labels,
                 const Tensor& metrics, const Tensor* diff, TaskTag tag = {}) {
  args.gradient = diff != nullptr;
  loss.submit(args, {read(src), read(labels), write(metrics), if_any(write, diff)}, tag);
}

}  // namespace omni
