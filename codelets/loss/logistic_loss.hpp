// Logistic cross-entropy treats every output as the answer to a yes-or-no question, whose truth is
// the one-hot label. It is computed from the values before the logistic function. A probability
// that rounds to 0 or 1 still has a finite loss then.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "codelets/loss/label_metrics.hpp"
#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct LogisticLossArgs {
  int n = 0, inputs = 0;
  float weight = 1;       // multiplies the loss and its gradient
  bool gradient = false;  // submit_loss() sets it: there is a diff to write
};

namespace reference {

// Returns log(1 + e^x) = -log(1 - p), where p = logistic(x). For -x it is -log(p).
template <class T>
OMNI_HD T softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

// Returns p - t. For t = 1 it does not subtract p from 1, which would lose digits.
template <class T>
OMNI_HD T probability_less_truth(T x, bool truth) {
  return truth ? -1 / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

// Computes loss = sum of -t log(p) - (1 - t) log(1 - p), and diff = p - t, its gradient with
// respect to src.
template <class T>
void logistic_loss(const LogisticLossArgs& args, const T* src, const std::int32_t* labels,
                   T* metrics, T* diff) {
  judge_images(args.n, args.inputs, args.weight, src, labels, metrics,
               args.gradient ? diff : nullptr,
               [&](LabelMetrics& sums, int label, const T* x, T* d) {
                 for (int i = 0; i < args.inputs; ++i) {
                   sums.loss += static_cast<double>(softplus(i == label ? -x[i] : x[i]));
                   if (d != nullptr) d[i] = probability_less_truth(x[i], i == label);
                 }
                 sums.count(label_rank(x, args.inputs, label));
               });
}

}  // namespace reference

// submit_loss() submits this codelet. src are the values before the logistic function.
OMNI_CODELET(LogisticLossArgs, logistic_loss);

}  // namespace omni
