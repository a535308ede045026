// The cost loss is the distance of the output from the one-hot label. Old nets that end with a cost
// layer use it. With d = prediction - truth, loss = scale * sum f(d), and diff = scale * f'(d) is
// exactly its gradient. Caffe's hinge loss is another function of prediction and truth.
//
// Darknet reports other multiples of f (d^2, not d^2/2) without the scale, and its `smooth` steps
// in the wrong direction where |d| >= 1.
#pragma once

#include <cmath>
#include <cstdint>

#include "codelets/elementwise/activation_functors.hpp"
#include "codelets/loss/label_metrics.hpp"
#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

enum class Distance : int { sse, smooth, l1, hinge, squared_hinge };

struct CostLossArgs {
  int n = 0, inputs = 0;
  Distance distance = Distance::sse;
  float scale = 1;
  bool gradient = false;  // submit_loss() sets it: there is a diff to write
};

namespace distances {

using activations::like;

// The functors are functions of the prediction x and its truth t, 1 for the label and 0 for other
// classes. gradient(x, t) is the derivative by x.

struct Squared {
  OMNI_HD auto operator()(auto x, auto t) const { return (x - t) * (x - t) / 2; }
  OMNI_HD auto gradient(auto x, auto t) const { return x - t; }
};

// Smooth is d^2 / 2 for |d| up to 1, and linear in d beyond that.
struct Smooth {
  OMNI_HD auto operator()(auto x, auto t) const {
    const auto d = x - t, size = std::abs(d);
    return size < 1 ? d * d / 2 : size - like(d, 0.5);
  }
  OMNI_HD auto gradient(auto x, auto t) const {
    const auto d = x - t, below = d > 1 ? like(d, 1) : d;
    return d < -1 ? like(d, -1) : below;
  }
};

struct Absolute {
  OMNI_HD auto operator()(auto x, auto t) const { return std::abs(x - t); }
  OMNI_HD auto gradient(auto x, auto t) const {
    const auto d = x - t, not_above = d < 0 ? like(d, -1) : d;  // 0, or NaN
    return d > 0 ? like(d, 1) : not_above;
  }
};

// Hinge is 1 - s x if that is above 0, where s is 1 for the label and -1 for other classes; else 0.
struct Hinge {
  OMNI_HD static auto sign(auto t) { return 2 * t - 1; }
  OMNI_HD auto operator()(auto x, auto t) const {
    const auto margin = 1 - sign(t) * x;
    return margin < 0 ? like(x, 0) : margin;
  }
  OMNI_HD auto gradient(auto x, auto t) const {
    return 1 - sign(t) * x > 0 ? -sign(t) : like(x, 0);
  }
};

struct SquaredHinge {
  OMNI_HD auto operator()(auto x, auto t) const { return Hinge()(x, t) * Hinge()(x, t); }
  OMNI_HD auto gradient(auto x, auto t) const { return -2 * Hinge::sign(t) * Hinge()(x, t); }
};

}  // namespace distances

// Calls use(f) with the distance's functor, so that loops contain no switch.
void with_distance(Distance distance, auto&& use) {
  switch (distance) {
    case Distance::sse: return use(distances::Squared{});
    case Distance::smooth: return use(distances::Smooth{});
    case Distance::l1: return use(distances::Absolute{});
    case Distance::hinge: return use(distances::Hinge{});
    case Distance::squared_hinge: return use(distances::SquaredHinge{});
  }
}

namespace reference {

template <class T>
void cost_loss(const CostLossArgs& args, const T* src, const std::int32_t* labels, T* metrics,
               T* diff) {
  judge_images(args.n, args.inputs, 1, src, labels, metrics, args.gradient ? diff : nullptr,
               [&](LabelMetrics& sums, int label, const T* x, T* d) {
                 sums.count(label_rank(x, args.inputs, label));
                 with_distance(args.distance, [&](auto f) {
                   for (int i = 0; i < args.inputs; ++i) {
                     const T truth = i == label ? T{1} : T{0}, scale = static_cast<T>(args.scale);
                     sums.loss += static_cast<double>(scale * f(x[i], truth));
                     if (d != nullptr) d[i] = scale * f.gradient(x[i], truth);
                   }
                 });
               });
}

}  // namespace reference

OMNI_CODELET(CostLossArgs, cost_loss);  // submitted by submit_loss()

}  // namespace omni
