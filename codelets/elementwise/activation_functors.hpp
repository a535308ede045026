// These functors are Darknet's activations, for the loops of cores and for CUDA kernels. f(x) is
// the value, and f.gradient(v) is the derivative. If the function is monotone, v is its *output*,
// so layers need not keep their input. The functions from swish to gelu are not monotone, so for
// them v is the input.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/bf16/bf16.hpp"

namespace omni {

// OMNI_ACTIVATIONS lists Darknet's names and their functors.
// clang-format off
#define OMNI_ACTIVATIONS(each) \
  each(linear, Linear) each(relu, Relu) each(leaky, Leaky) each(logistic, Logistic) \
  each(tanh, Tanh) each(elu, Elu) each(selu, Selu) each(relie, Relie) \
  each(ramp, Ramp) each(loggy, Loggy) each(plse, Plse) each(stair, Stair) \
  each(hardtan, Hardtan) each(lhtan, Lhtan) each(swish, Swish) each(mish, Mish) \
  each(hard_mish, HardMish) each(gelu, Gelu) each(relu6, Relu6)
// clang-format on

#define OMNI_NUMBER(name, functor) name,
enum class Activation : int { OMNI_ACTIVATIONS(OMNI_NUMBER) };
#undef OMNI_NUMBER

// The names are in the order of the enum. New activations come last, because footprints of StarPU's
// performance models hold the enum's numbers.
#define OMNI_NAME(name, functor) #name,
inline constexpr std::array<std::string_view, 19> kActivationNames{OMNI_ACTIVATIONS(OMNI_NAME)};
#undef OMNI_NAME

// Returns true if the gradient is a function of the value before the activation. Returns false if
// it is a function of the value after the activation.
constexpr bool gradient_needs_input(Activation activation) {
  return activation >= Activation::swish && activation <= Activation::gelu;
}

constexpr std::string_view activation_name(Activation activation) {
  return kActivationNames[static_cast<std::size_t>(activation)];
}

namespace activations {

// Returns e^x - 1, exact to a few ulp even near 0. The float version has no branch and no call, so
// loops around it vectorise: x = n*ln2 + r, then 2^n * (e^r - 1) + (2^n - 1). It is limited to e^88
// instead of overflowing, so tanh computes no inf/inf. NaN stays NaN.
inline OMNI_HD double exp_minus_one(double x) { return std::expm1(x); }
inline OMNI_HD float exp_minus_one(float x) {
#ifdef __CUDA_ARCH__
  return expm1f(x > 88.0f ? 88.0f : x);
#else
  x = x > 88.0f ? 88.0f : x;
  x = x < -87.0f ? -87.0f : x;
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // x - n * ln(2), in two steps
  float series = 1.9875691500e-4f;
  series = series * r + 1.3981999507e-3f;
  series = series * r + 8.3334519073e-3f;
  series = series * r + 4.1665795894e-2f;
  series = series * r + 1.6666665459e-1f;
  series = series * r + 5.0000001201e-1f;
  series = series * r * r + r;
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) +
                                           std::bit_cast<std::uint32_t>(1.0f));
  return power * series + (power - 1.0f);
#endif
}

// Returns a constant in the type of the first argument.
template <class T>
OMNI_HD constexpr T like(T, double constant) {
  return static_cast<T>(constant);
}

struct Linear {
  OMNI_HD auto operator()(auto x) const { return x; }
  OMNI_HD auto gradient(auto y) const { return like(y, 1); }
};

// Relu is max(x, 0), written so that NaN stays NaN.
struct Relu {
  OMNI_HD auto operator()(auto x) const { return x < 0 ? like(x, 0) : x; }
  OMNI_HD auto gradient(auto y) const { return y > 0 ? like(y, 1) : like(y, 0); }
};

// SlopedRelu is x for x > 0, else slope * x. The output has the sign of the input.
template <int slope_thousandths>
struct SlopedRelu {
  OMNI_HD auto slope(auto x) const { return like(x, slope_thousandths) / 1000; }
  OMNI_HD auto operator()(auto x) const { return x > 0 ? x : x * slope(x); }
  OMNI_HD auto gradient(auto y) const { return y > 0 ? like(y, 1) : slope(y); }
};
using Leaky = SlopedRelu<100>;
using Relie = SlopedRelu<10>;

// Logistic is s = 1 / (1 + e^-x). Its derivative is s (1 - s).
struct Logistic {
  OMNI_HD auto operator()(auto x) const { return 1 / (2 + exp_minus_one(-x)); }
  OMNI_HD auto gradient(auto y) const { return (1 - y) * y; }
};

// Tanh is y = e / (e + 2), where e = e^2x - 1. Its derivative is 1 - y^2.
struct Tanh {
  OMNI_HD auto operator()(auto x) const {
    const auto e = exp_minus_one(x > 20 ? like(x, 40) : 2 * x);
    return e / (e + 2);
  }
  OMNI_HD auto gradient(auto y) const { return 1 - y * y; }
};

// Loggy is y = 2 / (1 + e^-x) - 1 = tanh(x / 2). Its derivative is (1 - y^2) / 2.
struct Loggy {
  OMNI_HD auto operator()(auto x) const { return Tanh{}(x / 2); }
  OMNI_HD auto gradient(auto y) const { return (1 - y * y) / 2; }
};

// Elu is x for x >= 0, else y = e^x - 1, whose derivative e^x is y + 1.
struct Elu {
  OMNI_HD auto operator()(auto x) const {
    const auto below = exp_minus_one(x < 0 ? x : like(x, 0));
    return x < 0 ? below : x;
  }
  OMNI_HD auto gradient(auto y) const { return y < 0 ? y + 1 : like(y, 1); }
};

// Selu is y = scale * (x >= 0 ? x : alpha (e^x - 1)). Below 0 its derivative is scale*alpha*e^x = y
// + scale*alpha.
struct Selu {
  static constexpr double kScale = 1.0507009873554805, kAlpha = 1.6732632423543772;
  OMNI_HD auto operator()(auto x) const {
    const auto below = like(x, kScale * kAlpha) * exp_minus_one(x < 0 ? x : like(x, 0));
    return x < 0 ? below : like(x, kScale) * x;
  }
  OMNI_HD auto gradient(auto y) const {
    return y < 0 ? y + like(y, kScale * kAlpha) : like(y, kScale);
  }
};

// Ramp is 1.1 x for x > 0, else 0.1 x.
struct Ramp {
  OMNI_HD auto operator()(auto x) const { return (x > 0 ? x : like(x, 0)) + like(x, 0.1) * x; }
  OMNI_HD auto gradient(auto y) const { return y > 0 ? like(y, 1.1) : like(y, 0.1); }
};

// Plse is x / 8 + 1/2 while that is between 0 and 1 (|x| <= 4). Elsewhere its slope is 0.01.
struct Plse {
  OMNI_HD auto operator()(auto x) const {
    const auto middle = like(x, 0.125) * x + like(x, 0.5);
    const auto bounded = x > 4 ? like(x, 0.01) * (x - 4) + 1 : middle;
    return x < -4 ? like(x, 0.01) * (x + 4) : bounded;
  }
  OMNI_HD auto gradient(auto y) const { return y < 0 || y > 1 ? like(y, 0.01) : like(y, 0.125); }
};

// Stair is floor(x / 2), a whole number, while floor(x) is even. While floor(x) is odd, it rises by
// 1 with slope 1.
struct Stair {
  OMNI_HD auto operator()(auto x) const {
    const auto step = std::floor(x), half = std::floor(x / 2);
    return step == 2 * half ? half : x + (half - step);
  }
  OMNI_HD auto gradient(auto y) const { return std::floor(y) == y ? like(y, 0) : like(y, 1); }
};

template <int low, int high>
struct Clipped {
  OMNI_HD auto operator()(auto x) const {
    const auto bounded = x > high ? like(x, high) : x;
    return x < low ? like(x, low) : bounded;
  }
  OMNI_HD auto gradient(auto y) const { return y > low && y < high ? like(y, 1) : like(y, 0); }
};
using Hardtan = Clipped<-1, 1>;
using Relu6 = Clipped<0, 6>;

// The slope of Lhtan is 1 between 0 and 1, and 0.001 elsewhere.
struct Lhtan {
  OMNI_HD auto operator()(auto x) const {
    const auto bounded = x > 1 ? like(x, 0.001) * (x - 1) + 1 : x;
    return x < 0 ? like(x, 0.001) * x : bounded;
  }
  OMNI_HD auto gradient(auto y) const { return y > 0 && y < 1 ? like(y, 1) : like(y, 0.001); }
};

// Returns x, but at least -80. Below -80, x / (1 + e^-x) and similar functions are nearer to 0 than
// 1e-32, and e^-x might overflow.
OMNI_HD auto at_least_minus_80(auto x) { return x < -80 ? like(x, -80) : x; }

// Swish is x s(x), where s is the logistic function. From this functor on, gradients are functions
// of x.
struct Swish {
  OMNI_HD auto operator()(auto x) const {
    const auto bounded = at_least_minus_80(x);
    return bounded * Logistic{}(bounded);
  }
  OMNI_HD auto gradient(auto x) const {
    const auto bounded = x > 80 ? like(x, 80) : at_least_minus_80(x);
    const auto s = Logistic{}(bounded);
    return s + bounded * s * (1 - s);
  }
};

// Mish is x t, where t = tanh(log(1 + e^x)). With u = e^-x, t is (1 + 2u) / (1 + 2u + 2u^2), but
// computed without u^2. The derivative of t is (1 - t^2) s(x).
struct Mish {
  static OMNI_HD auto slope(auto u) { return 1 / (1 + u * (2 * u / (1 + 2 * u))); }
  OMNI_HD auto operator()(auto x) const {
    const auto bounded = at_least_minus_80(x);
    return bounded * slope(1 + exp_minus_one(-bounded));
  }
  OMNI_HD auto gradient(auto x) const {
    const auto bounded = x > 80 ? like(x, 80) : at_least_minus_80(x);
    const auto u = 1 + exp_minus_one(-bounded), t = slope(u);
    return t + bounded * (1 - t * t) / (1 + u);
  }
};

// HardMish is 0 for x up to -2, x + x^2 / 2 between -2 and 0, and x from 0 on.
struct HardMish {
  OMNI_HD auto operator()(auto x) const {
    const auto bend = x > 0 ? like(x, 0) : x;
    return x < -2 ? like(x, 0) : x + bend * bend / 2;
  }
  OMNI_HD auto gradient(auto x) const {
    const auto rising = x > 0 ? like(x, 1) : x + 1;
    return x > -2 ? rising : like(x, 0);
  }
};

// Gelu is used in its form with tanh: x/2 (1 + tanh(k (x + c x^3))), where k = sqrt(2 / pi). It is
// the same as x s(2k (x + c x^3)).
struct Gelu {
  static constexpr double kTwice = 1.5957691216057308, kCubic = 0.044715;
  // Returns the factor by which x is multiplied. Its argument is limited by bounded(), as the
  // factor is 0 or 1 for |x| > 10.
  static OMNI_HD auto share(auto x) {
    return Logistic{}(like(x, kTwice) * x * (1 + like(x, kCubic) * x * x));
  }
  static OMNI_HD auto bounded(auto x) {
    const auto below = x > 10 ? like(x, 10) : x;
    return x < -10 ? like(x, -10) : below;
  }
  OMNI_HD auto operator()(auto x) const { return (x < -10 ? like(x, -10) : x) * share(bounded(x)); }
  OMNI_HD auto gradient(auto x) const {
    const auto near = bounded(x), s = share(near);
    return s + near * s * (1 - s) * like(x, kTwice) * (1 + like(x, 3 * kCubic) * near * near);
  }
};

}  // namespace activations

// Calls use(functor) with the functor of `activation`, so that loops contain no switch.
constexpr decltype(auto) with_activation(Activation activation, auto&& use) {
  switch (activation) {
#define OMNI_CASE(name, functor) \
  case Activation::name: return use(activations::functor{});
    OMNI_ACTIVATIONS(OMNI_CASE)
#undef OMNI_CASE
  }
  return use(activations::Linear{});
}

// Applies an activation in place. Kernels whose last step is an activation call it.
template <class T>
void activate(Activation activation, T* x, std::size_t count) {
  if (activation == Activation::linear) return;
  with_activation(activation, [=](auto f) {
    for (std::size_t i = 0; i < count; ++i) x[i] = f(static_cast<Computed<T>>(x[i]));
  });
}

}  // namespace omni
