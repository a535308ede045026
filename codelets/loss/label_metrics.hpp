// What every loss codelet says about a slice besides its gradient: the loss and how many images are
// right. A place labelled kNoLabel holds no image: no loss, no gradient, not counted.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codelets/declaration.hpp"
#include "runtime/tasks/slices.hpp"

namespace omni {

// Stored as f32[4]: loss sum, correct top-1, correct top-5, images.
struct LabelMetrics {
  double loss = 0;
  int top1 = 0, top5 = 0, images = 0;

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

// Whether a class comes before the label, whose value is `own`. Ties go to the lower index, so that
// a constant output is not right about everything; a NaN comes last, so that a diverged net is
// right about nothing.
template <class T>
constexpr bool comes_before(T value, T own, bool lower_index) {
  return lower_index ? !(value < own) : !(value <= own);
}

// How many classes come before the label.
template <class T>
int label_rank(const T* values, int classes, int label) {
  const T own = values[label];
  int before = 0;
  for (int i = 0; i < label; ++i) before += comes_before(values[i], own, true);
  for (int i = label + 1; i < classes; ++i) before += comes_before(values[i], own, false);
  return before;
}

// Throws for a label that is none of the classes.
int checked_label(std::int32_t label, int classes, int image);

// The sums over n images of judge(sums, label, x, d), which is given the image's values and, unless
// diff is null, its gradient to write; of a place without image that is 0.
template <class T, class Judge>
void judge_images(int n, int inputs, const T* src, const std::int32_t* labels, T* metrics, T* diff,
                  Judge judge) {
  LabelMetrics sums;
  for (int image = 0; image < n; ++image) {
    const std::int64_t first = std::int64_t{image} * inputs;
    T* d = diff != nullptr ? diff + first : nullptr;
    if (labels[image] != kNoLabel)
      judge(sums, checked_label(labels[image], inputs, image), src + first, d);
    else if (d != nullptr)
      std::fill_n(d, inputs, T{0});
  }
  sums.store(metrics);
}

// Of a loss with the buffers {src R, labels R, metrics W [, diff W]}: labels: i32[n]; metrics:
// f32[4], see LabelMetrics; diff may be null (no training).
template <class Args>
void submit_loss(Codelet<Args>& loss, Args args, const Tensor& src, const Tensor& labels,
                 const Tensor& metrics, const Tensor* diff, TaskTag tag = {}) {
  args.gradient = diff != nullptr;
  loss.submit(args, {read(src), read(labels), write(metrics), if_any(write, diff)}, tag);
}

}  // namespace omni
