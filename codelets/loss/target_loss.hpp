// These losses compare every value of a prediction with a value of a target. The target is another
// blob with as many values, or the label as a number. Half the squared distance is Caffe's
// EuclideanLoss, logistic cross-entropy its SigmoidCrossEntropyLoss.
#pragma once

#include <cstdint>

#include "codelets/loss/label_metrics.hpp"
#include "codelets/loss/logistic_loss.hpp"
#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct TargetLossArgs {
  int n = 0, inputs = 0;
  bool logistic = false;  // false: half the squared distance
  float weight = 1;       // multiplies the loss and its gradients
  // A vector has an image's values channel by channel, but images have channels last. If only one
  // of prediction and target is an image, it has as many rows as these: value i of the prediction
  // is that of row i / columns and column i mod columns, in the target they are exchanged.
  int columns = 1;
  bool of_labels = false;  // the target is the label; then inputs is 1
  // submit_target_loss() sets these: there are gradients of the prediction and of the target to
  // write.
  bool gradient = false, target_gradient = false;

  OMNI_HD std::int64_t target_of(std::int64_t i) const {
    return columns == 1 ? i : i % columns * (inputs / columns) + i / columns;
  }
};

struct HalfSquare {
  OMNI_HD static auto loss(auto x, auto t) { return (x - t) * (x - t) / 2; }
  OMNI_HD static auto gradient(auto x, auto t) { return x - t; }
  OMNI_HD static auto target_gradient(auto x, auto t) { return t - x; }
};

// The loss is -t log(p) - (1 - t) log(1 - p), where p = logistic(x). Targets may be any numbers.
struct LogisticToTarget {
  template <class T>
  OMNI_HD static T loss(T x, T t) {
    return reference::softplus(x) - x * t;
  }
  template <class T>
  OMNI_HD static T gradient(T x, T t) {
    return reference::probability_less_truth(x, false) - t;
  }
  template <class T>
  OMNI_HD static T target_gradient(T x, T) {
    return -x;
  }
};

// The last buffers of a task are optional: {... [, target R] [, diff W] [, target diff W]}.
template <class T>
struct TargetBuffers {
  TargetBuffers(const TargetLossArgs& args, T* first, T* second, T* third) {
    T* const all[] = {first, second, third};
    int next = 0;
    if (!args.of_labels) target = all[next++];
    if (args.gradient) diff = all[next++];
    if (args.target_gradient) diff_target = all[next++];
  }
  const T* target = nullptr;
  T *diff = nullptr, *diff_target = nullptr;
};

namespace reference {

template <class T>
void target_loss(const TargetLossArgs& args, const T* src, const std::int32_t* labels, T* metrics,
                 T* first, T* second, T* third) {
  const TargetBuffers<T> buffers(args, first, second, third);
  const T weight = static_cast<T>(args.weight);
  LabelMetrics sums;
  const auto add = [&]<class F>(F) {
    for (int image = 0; image < args.n; ++image) {
      const bool is_there = labels[image] != kNoLabel;
      sums.images += is_there;
      for (int i = 0; i < args.inputs; ++i) {
        const std::int64_t of_image = std::int64_t{image} * args.inputs, at = of_image + i,
                           of_target = of_image + args.target_of(i);
        const T x = src[at],
                t = args.of_labels ? static_cast<T>(labels[image]) : buffers.target[of_target];
        if (is_there) sums.loss += static_cast<double>(weight * F::loss(x, t));
        if (buffers.diff != nullptr)
          buffers.diff[at] = is_there ? weight * F::gradient(x, t) : T{0};
        if (buffers.diff_target != nullptr)
          buffers.diff_target[of_target] = is_there ? weight * F::target_gradient(x, t) : T{0};
      }
    }
  };
  args.logistic ? add(LogisticToTarget()) : add(HalfSquare());
  sums.store(metrics);
}

}  // namespace reference

// The buffers are {src R, labels R, metrics W [, target R] [, diff W] [, target diff W]}.
OMNI_CODELET(TargetLossArgs, target_loss);

// Submits the loss. A null target means the labels. Gradients that are null are not computed.
void submit_target_loss(TargetLossArgs args, const Tensor& src, const Tensor* target,
                        const Tensor& labels, const Tensor& metrics, const Tensor* diff,
                        const Tensor* diff_target, TaskTag tag = {});

}  // namespace omni
