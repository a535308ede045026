// The losses: how wrong an output is, and its gradient.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/slices.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

// ---- metrics ----
//
// What every loss codelet says about a slice besides its gradient: the loss and how many images are
// right. A place labelled kNoLabel holds no image: no loss, no gradient, not counted.

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

// ---- softmax ----
//
// Softmax over groups of a row, and its cross-entropy against one label per image: the gradient
// with respect to the *input* of the softmax, so that the pair needs no softmax backward, and the
// loss from that input, as probabilities round to 0 and 1 long before their logarithms do.

// n rows of `inputs` values; each of the `groups` equal parts of a row is a distribution of its
// own.
struct SoftmaxArgs {
  int n = 0, inputs = 0, groups = 1;
  float temperature = 1;
};

// The label counts over the whole row: it lies in exactly one group, and only that group has a
// loss. An image is right when no probability of the row, of whichever group, comes before the
// label's.
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

// What a label's loss is made of. With e = exp((x - largest x) / temperature) over its group:
struct LabelOdds {
  double own = 0;    // e of the label; exactly 1 where it is the likeliest
  double rest = 0;   // the sum of all others
  double below = 0;  // (largest x - x of the label) / temperature

  // -log p = log(own + rest) + below, exact near 0, too: there own is 1 and rest is small.
  OMNI_HD double loss() const { return std::log1p(rest + (own - 1)) + below; }
  // p - truth, without the cancellation of p and 1.
  OMNI_HD double error(double truth) const { return (1 - truth) - rest / (own + rest); }
};

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
void cross_entropy(const CrossEntropyArgs& args, const T* logits, const T* probabilities,
                   const std::int32_t* labels, T* metrics, T* diff) {
  const int size = args.inputs / args.groups;
  const auto temperature = static_cast<double>(args.temperature);
  const Truth truth = smoothed_truth(args);
  judge_images(args.n, args.inputs, logits, labels, metrics, args.gradient ? diff : nullptr,
               [&](LabelMetrics& sums, int label, const T* x, T* d) {
                 const T* p = probabilities + (x - logits);
                 const int first = label / size * size;  // of the label's group
                 const T top = *std::max_element(x + first, x + first + size);
                 const auto below = [&](int i) {
                   return (static_cast<double>(top) - static_cast<double>(x[i])) / temperature;
                 };
                 LabelOdds odds{.own = std::exp(-below(label)), .below = below(label)};
                 double others_below = 0;  // the label
                 for (int i = first; i < first + size; ++i) {
                   if (i != label) odds.rest += std::exp(-below(i));
                   others_below += below(i) - odds.below;
                 }
                 sums.loss += odds.loss() + (truth.other > 0 ? truth.other * others_below : 0);
                 sums.count(label_rank(p, args.inputs, label));
                 for (int i = 0; d != nullptr && i < args.inputs; ++i) {
                   const bool inside = i >= first && i < first + size;
                   const double error = i == label ? odds.error(truth.label)
                                                   : static_cast<double>(p[i]) - truth.other;
                   d[i] = inside ? static_cast<T>(error / temperature) : T{0};
                 }
               });
}

}  // namespace reference

OMNI_CODELET(SoftmaxArgs, softmax_forward);  // {src R, dst W}
// {logits R, probabilities R, labels R, metrics W [, diff W]}
OMNI_CODELET(CrossEntropyArgs, cross_entropy);

// probabilities: what softmax_forward makes of the logits. labels: i32[n]; metrics: f32[4], see
// LabelMetrics; diff may be null (no training).
void submit_cross_entropy(CrossEntropyArgs args, const Tensor& logits, const Tensor& probabilities,
                          const Tensor& labels, const Tensor& metrics, const Tensor* diff,
                          TaskTag tag = {});

// ---- logistic ----
//
// Logistic cross-entropy: every output is a yes-or-no question of its own, whose truth is the
// one-hot label. Computed from the values before the logistic function, where a probability that
// rounds to 0 or 1 still has a finite loss.

struct LogisticLossArgs {
  int n = 0, inputs = 0;
  bool gradient = false;  // set by submit: there is a diff to write
};

namespace reference {

// log(1 + e^x) = -log(1 - p), where p = logistic(x); with -x it is -log(p).
template <class T>
OMNI_HD T softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

// p - t, for t = 1 without the cancellation.
template <class T>
OMNI_HD T probability_less_truth(T x, bool truth) {
  return truth ? -1 / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

// loss = sum of -t log(p) - (1 - t) log(1 - p); diff = p - t, its gradient with respect to src.
template <class T>
void logistic_loss(const LogisticLossArgs& args, const T* src, const std::int32_t* labels,
                   T* metrics, T* diff) {
  judge_images(args.n, args.inputs, src, labels, metrics, args.gradient ? diff : nullptr,
               [&](LabelMetrics& sums, int label, const T* x, T* d) {
                 for (int i = 0; i < args.inputs; ++i) {
                   sums.loss += static_cast<double>(softplus(i == label ? -x[i] : x[i]));
                   if (d != nullptr) d[i] = probability_less_truth(x[i], i == label);
                 }
                 sums.count(label_rank(x, args.inputs, label));
               });
}

}  // namespace reference

// See submit_loss(); src: before the logistic function.
OMNI_CODELET(LogisticLossArgs, logistic_loss);

// ---- cost ----
//
// The distance of the output from the one-hot label, for old cfgs that end in [cost].
//
// With d = prediction - truth, loss = scale * sum f(d) and diff = scale * f'(d), exactly its
// gradient. Darknet reports other multiples of f (d^2, not d^2/2) without the scale; and its smooth
// steps the wrong way where |d| >= 1.

enum class Distance : int { sse, smooth, l1 };

struct CostLossArgs {
  int n = 0, inputs = 0;
  Distance distance = Distance::sse;
  float scale = 1;
  bool gradient = false;  // set by submit: there is a diff to write
};

namespace distances {

using activations::like;

struct Squared {
  OMNI_HD auto operator()(auto d) const { return d * d / 2; }
  OMNI_HD auto gradient(auto d) const { return d; }
};

// Squared up to 1, from there on straight.
struct Smooth {
  OMNI_HD auto operator()(auto d) const {
    const auto size = std::abs(d);
    return size < 1 ? d * d / 2 : size - like(d, 0.5);
  }
  OMNI_HD auto gradient(auto d) const {
    const auto below = d > 1 ? like(d, 1) : d;
    return d < -1 ? like(d, -1) : below;
  }
};

struct Absolute {
  OMNI_HD auto operator()(auto d) const { return std::abs(d); }
  OMNI_HD auto gradient(auto d) const {
    const auto not_above = d < 0 ? like(d, -1) : d;  // 0, or NaN
    return d > 0 ? like(d, 1) : not_above;
  }
};

}  // namespace distances

// Calls use(f), so that a loop has its switch outside.
void with_distance(Distance distance, auto&& use) {
  switch (distance) {
    case Distance::sse: return use(distances::Squared{});
    case Distance::smooth: return use(distances::Smooth{});
    case Distance::l1: return use(distances::Absolute{});
  }
}

namespace reference {

template <class T>
void cost_loss(const CostLossArgs& args, const T* src, const std::int32_t* labels, T* metrics,
               T* diff) {
  judge_images(args.n, args.inputs, src, labels, metrics, args.gradient ? diff : nullptr,
               [&](LabelMetrics& sums, int label, const T* x, T* d) {
                 sums.count(label_rank(x, args.inputs, label));
                 with_distance(args.distance, [&](auto f) {
                   for (int i = 0; i < args.inputs; ++i) {
                     const T error = x[i] - (i == label ? T{1} : T{0});
                     const T scale = static_cast<T>(args.scale);
                     sums.loss += static_cast<double>(scale * f(error));
                     if (d != nullptr) d[i] = scale * f.gradient(error);
                   }
                 });
               });
}

}  // namespace reference

OMNI_CODELET(CostLossArgs, cost_loss);  // see submit_loss()

}  // namespace omni
