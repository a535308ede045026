// Sum of squared errors against the one-hot label, for old cfgs that end in [cost] type=sse.
//
// loss = scale/2 * sum (prediction - truth)^2 and diff = scale * (prediction - truth), exactly its
// gradient. Darknet's step is the same (it ascends along truth - prediction), but it reports the
// sum without the factor scale/2.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codelets/loss/label_metrics.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {

struct SseLossArgs {
  int n = 0, inputs = 0;
  float scale = 1;
  bool gradient = false;  // set by submit: there is a diff to write
};

namespace reference {

template <class T>
void sse_loss(const SseLossArgs& args, const T* src, const std::int32_t* labels, T* metrics,
              T* diff) {
  LabelMetrics sums;
  for (int image = 0; image < args.n; ++image) {
    const T* x = src + std::int64_t{image} * args.inputs;
    if (labels[image] == kNoLabel) {
      if (args.gradient) std::fill_n(diff + std::int64_t{image} * args.inputs, args.inputs, T{0});
      continue;
    }
    const int label = checked_label(labels[image], args.inputs, image);
    for (int i = 0; i < args.inputs; ++i) {
      const T error = x[i] - (i == label ? T{1} : T{0});
      const T scaled = static_cast<T>(args.scale) * error;
      sums.loss += static_cast<double>(scaled * error) / 2;
      if (args.gradient) diff[std::int64_t{image} * args.inputs + i] = scaled;
    }
    sums.count(label_rank(x, args.inputs, label));
  }
  sums.store(metrics);
}

}  // namespace reference

extern Codelet<SseLossArgs> sse_loss;  // {src R, labels R, metrics W [, diff W]}

// labels: i32[n]; metrics: f32[4], see LabelMetrics; diff may be null (no training).
void submit_sse_loss(SseLossArgs args, const Tensor& src, const Tensor& labels,
                     const Tensor& metrics, const Tensor* diff, TaskTag tag = {});

}  // namespace omni
