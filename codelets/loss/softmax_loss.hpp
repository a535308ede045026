// Softmax over groups of a row, and the cross-entropy of its probabilities against one label per
// image. cross_entropy writes the gradient with respect to the *input* of the softmax, so the pair
// needs no softmax backward.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "codelets/elementwise/activation_functors.hpp"
#include "codelets/loss/label_metrics.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

// n rows of `inputs` values; each of the `groups` equal parts of a row is a distribution of its
// own.
struct SoftmaxArgs {
  int n = 0, inputs = 0, groups = 1;
  float temperature = 1;
};

// The label counts over the whole row: it lies in exactly one group, and only that group has a
// loss.
struct CrossEntropyArgs {
  int n = 0, inputs = 0, groups = 1;
  float temperature = 1;
  float smoothing = 0;    // this much of the truth is spread over the wrong classes
  bool gradient = false;  // set by submit: there is a diff to write
};

// The truth of the label and of every other class of its group.
struct Truth {
  double label = 1, other = 0;
};
inline Truth smoothed_truth(const CrossEntropyArgs& args) {
  const int others = args.inputs / args.groups - 1;
  if (others == 0) return {};
  const auto spread = static_cast<double>(args.smoothing);
  return {.label = 1 - spread, .other = spread / others};
}

// Bounded where a probability underflows to 0; a NaN stays one, so that it is noticed.
template <class T>
OMNI_HD T bounded_logarithm(T probability) {
  const T tiny = std::numeric_limits<float>::min();
  return std::log(probability < tiny ? tiny : probability);
}

namespace gpu {
KernelFunction<SoftmaxArgs> softmax_forward;
KernelFunction<CrossEntropyArgs> cross_entropy;
}  // namespace gpu

namespace reference {

template <class T>
void softmax_forward(const SoftmaxArgs& args, const T* src, T* dst) {
  const int size = args.inputs / args.groups;
  for (std::int64_t part = 0; part < std::int64_t{args.n} * args.groups; ++part) {
    const T* x = src + part * size;
    T* p = dst + part * size;
    const T top = *std::max_element(x, x + size);  // keeps exp in range
    double sum = 0;
    for (int i = 0; i < size; ++i) {
      p[i] = std::exp((x[i] - top) / static_cast<T>(args.temperature));
      sum += static_cast<double>(p[i]);
    }
    for (int i = 0; i < size; ++i) p[i] = static_cast<T>(static_cast<double>(p[i]) / sum);
  }
}

// Per image loss = -sum of truth * log p; diff = (p - truth) / temperature within the label's
// group, 0 in the others. Not divided by the batch: the update does that.
template <class T>
void cross_entropy(const CrossEntropyArgs& args, const T* probabilities, const std::int32_t* labels,
                   T* metrics, T* diff) {
  const int size = args.inputs / args.groups;
  const Truth truth = smoothed_truth(args);
  LabelMetrics sums;
  for (int image = 0; image < args.n; ++image) {
    const T* p = probabilities + std::int64_t{image} * args.inputs;
    if (labels[image] == kNoLabel) {
      if (args.gradient) std::fill_n(diff + std::int64_t{image} * args.inputs, args.inputs, T{0});
      continue;
    }
    const int label = checked_label(labels[image], args.inputs, image);
    const int first = label / size * size;  // of the label's group
    for (int i = first; i < first + size; ++i) {
      const double share = i == label ? truth.label : truth.other;
      if (share > 0) sums.loss -= share * static_cast<double>(bounded_logarithm(p[i]));
    }
    sums.count(label_rank(p + first, size, label - first));
    if (!args.gradient) continue;
    T* d = diff + std::int64_t{image} * args.inputs;
    for (int i = 0; i < args.inputs; ++i) {
      const bool inside = i >= first && i < first + size;
      const T share = static_cast<T>(i == label ? truth.label : truth.other);
      d[i] = inside ? (p[i] - share) / static_cast<T>(args.temperature) : T{0};
    }
  }
  sums.store(metrics);
}

}  // namespace reference

extern Codelet<SoftmaxArgs> softmax_forward;  // {src R, dst W}
extern Codelet<CrossEntropyArgs>
    cross_entropy;  // {probabilities R, labels R, metrics W [, diff W]}

void submit_softmax_forward(const SoftmaxArgs& args, const Tensor& src, const Tensor& dst,
                            TaskTag tag = {});
// labels: i32[n]; metrics: f32[4], see LabelMetrics; diff may be null (no training).
void submit_cross_entropy(CrossEntropyArgs args, const Tensor& probabilities, const Tensor& labels,
                          const Tensor& metrics, const Tensor* diff, TaskTag tag = {});

}  // namespace omni
