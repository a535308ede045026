// These are functions of each value that no activation of Darknet is: elu with any alpha, the
// absolute value, and softplus, which Caffe calls BNLL.
#pragma once

#include <cmath>
#include <cstdint>

#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

enum class Curve : int { elu, absolute, softplus };

struct CurveArgs {
  std::int64_t count = 0;
  Curve curve{};
  float parameter = 1;
};

namespace curves {

using activations::like;

// The functors are for the loops of cores and for CUDA kernels. gradient(x) is the derivative.

struct Elu {
  float alpha;
  OMNI_HD auto operator()(auto x) const {
    const auto below = like(x, alpha) * activations::exp_minus_one(x < 0 ? x : like(x, 0));
    return x < 0 ? below : x;
  }
  OMNI_HD auto gradient(auto x) const {
    const auto below = like(x, alpha) * (1 + activations::exp_minus_one(x < 0 ? x : like(x, 0)));
    return x < 0 ? below : like(x, 1);
  }
};

struct Absolute {
  OMNI_HD auto operator()(auto x) const { return x < 0 ? -x : x; }
  OMNI_HD auto gradient(auto x) const {
    const auto below = x < 0 ? like(x, -1) : x;  // 0, or NaN
    return x > 0 ? like(x, 1) : below;
  }
};

// Softplus is log(1 + e^x). Its derivative is 1 / (1 + e^-x).
struct Softplus {
  OMNI_HD auto operator()(auto x) const {
    const auto above = x > 0 ? x : like(x, 0);
    return above + std::log1p(std::exp(x > 0 ? -x : x));
  }
  OMNI_HD auto gradient(auto x) const { return activations::Logistic{}(x); }
};

}  // namespace curves

// Calls use(functor), so that loops contain no switch.
void with_curve(const CurveArgs& args, auto use) {
  switch (args.curve) {
    case Curve::elu: return use(curves::Elu{args.parameter});
    case Curve::absolute: return use(curves::Absolute{});
    case Curve::softplus: return use(curves::Softplus{});
  }
}

namespace reference {

template <class T>
void curve_forward(const CurveArgs& args, const T* src, T* dst) {
  with_curve(args, [&](auto f) {
    for (std::int64_t i = 0; i < args.count; ++i) dst[i] = f(src[i]);
  });
}

template <class T>
void curve_backward(const CurveArgs& args, const T* src, const T* diff_dst, T* diff_src) {
  with_curve(args, [&](auto f) {
    for (std::int64_t i = 0; i < args.count; ++i) diff_src[i] = diff_dst[i] * f.gradient(src[i]);
  });
}

}  // namespace reference

OMNI_CODELET(CurveArgs, curve_forward);   // {src R, dst W}
OMNI_CODELET(CurveArgs, curve_backward);  // {src R, diff_dst R, diff_src W}

}  // namespace omni
