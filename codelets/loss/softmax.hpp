// The softmax is over groups of a row; its cross-entropy is against one label per image. The
// gradient is that of the softmax's *input*, so the softmax has no backward pass. The loss is also
// computed from that input, because probabilities round to 0 and 1 long before their logarithms do.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "codelets/loss/label_metrics.hpp"
#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

// SoftmaxArgs describe n rows of `inputs` values. Each of the `groups` equal parts of a row is a
// distribution.
struct SoftmaxArgs {
  int n = 0, inputs = 0, groups = 1;
  float temperature = 1;
};

// Labels count over the whole row, so a label lies in one group; only that group has a loss. An
// image is right if no probability in any group of the row ranks before the label's.
struct CrossEntropyArgs {
  int n = 0, inputs = 0, groups = 1;
  float temperature = 1;
  float smoothing = 0;    // share of the truth that is spread over the wrong classes
  float weight = 1;       // multiplies the loss and its gradient
  bool gradient = false;  // the submit function sets it: there is a diff to write
  IgnoredLabels ignored{};
};

// Truth has the target probability of the label and of every other class in its group.
struct Truth {
  double label = 1, other = 0;
};
inline Truth smoothed_truth(const CrossEntropyArgs& args) {
  const int others = args.inputs / args.groups - 1;
  if (others == 0) return {};
  const auto spread = static_cast<double>(args.smoothing);
  return {.label = 1 - spread, .other = spread / others};
}

// LabelOdds are the sums from which the loss of a label is computed. In the label's group, e =
// exp((x - largest x) / temperature).
struct LabelOdds {
  double own = 0;    // e of the label; exactly 1 if the label is the likeliest class
  double rest = 0;   // sum of e of the other classes
  double below = 0;  // (largest x - x of the label) / temperature

  // Returns -log p = log(own + rest) + below. It is exact even near 0, where own is 1 and rest is
  // small.
  OMNI_HD double loss() const { return std::log1p(rest + (own - 1)) + below; }
  // Returns p - truth, computed without subtracting p from 1.
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

// The loss of an image is -sum of truth * log p. In the label's group diff = (p - truth) /
// temperature, in all other groups it is 0. Neither is divided by the batch: the update does that.
template <class T>
void cross_entropy(const CrossEntropyArgs& args, const T* logits, const T* probabilities,
                   const std::int32_t* labels, T* metrics, T* diff) {
  const int size = args.inputs / args.groups;
  const auto temperature = static_cast<double>(args.temperature);
  const Truth truth = smoothed_truth(args);
  judge_images(
      args.n, args.inputs, args.weight, logits, labels, metrics, args.gradient ? diff : nullptr,
      [&](LabelMetrics& sums, int label, const T* x, T* d) {
        const T* p = probabilities + (x - logits);
        sums.count(label == args.ignored.in_accuracy ? kNotJudged
                                                     : label_rank(p, args.inputs, label));
        if (label == args.ignored.in_loss) {
          if (d != nullptr) std::fill_n(d, args.inputs, T{0});
          return;
        }
        const int first = label / size * size;  // of the label's group
        const T top = *std::max_element(x + first, x + first + size);
        const auto below = [&](int i) {
          return (static_cast<double>(top) - static_cast<double>(x[i])) / temperature;
        };
        LabelOdds odds{.own = std::exp(-below(label)), .below = below(label)};
        double others_below = 0;  // sum over the group of log p(label) - log p(class)
        for (int i = first; i < first + size; ++i) {
          if (i != label) odds.rest += std::exp(-below(i));
          others_below += below(i) - odds.below;
        }
        sums.loss += odds.loss() + (truth.other > 0 ? truth.other * others_below : 0);
        for (int i = 0; d != nullptr && i < args.inputs; ++i) {
          const bool inside = i >= first && i < first + size;
          const double error =
              i == label ? odds.error(truth.label) : static_cast<double>(p[i]) - truth.other;
          d[i] = inside ? static_cast<T>(error / temperature) : T{0};
        }
      },
      args.ignored);
}

}  // namespace reference

OMNI_CODELET(SoftmaxArgs, softmax_forward);  // {src R, dst W}
// The buffers are {logits R, probabilities R, labels R, metrics W [, diff W]}.
OMNI_CODELET(CrossEntropyArgs, cross_entropy);

// Submits cross-entropy. `probabilities` are the output of softmax_forward for the logits.
// submit_loss() explains the other arguments.
void submit_cross_entropy(CrossEntropyArgs args, const Tensor& logits, const Tensor& probabilities,
                          const Tensor& labels, const Tensor& metrics, const Tensor* diff,
                          TaskTag tag = {});

}  // namespace omni
