// A power layer of Caffe computes (shift + scale * x)^power.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct PowerArgs {
  std::int64_t count = 0;
  float power = 1, scale = 1, shift = 0;
};

// The functors are for the loops of cores and for CUDA kernels. gradient(x) is the derivative.
struct FirstPower {
  float scale, shift;
  OMNI_HD float operator()(float x) const { return shift + scale * x; }
  OMNI_HD float gradient(float) const { return scale; }
};
struct SecondPower {
  float scale, shift;
  OMNI_HD float operator()(float x) const {
    const float base = shift + scale * x;
    return base * base;
  }
  OMNI_HD float gradient(float x) const { return 2 * scale * (shift + scale * x); }
};
struct OtherPower {
  float power, scale, shift;
  OMNI_HD float operator()(float x) const { return std::pow(shift + scale * x, power); }
  OMNI_HD float gradient(float x) const {
    const float factor = power * scale;
    return factor == 0 ? 0 : factor * std::pow(shift + scale * x, power - 1);
  }
};

// Calls use(functor). Powers that nets use often need no logarithm.
void with_power_of(const PowerArgs& args, auto use) {
  if (args.power == 1) return use(FirstPower{args.scale, args.shift});
  if (args.power == 2) return use(SecondPower{args.scale, args.shift});
  use(OtherPower{args.power, args.scale, args.shift});
}

namespace reference {

template <class T>
void power_forward(const PowerArgs& args, const T* src, T* dst) {
  const T power = static_cast<T>(args.power), scale = static_cast<T>(args.scale);
  for (std::int64_t i = 0; i < args.count; ++i)
    dst[i] = std::pow(static_cast<T>(args.shift) + scale * src[i], power);
}

// A power of 0, or a scale of 0, makes a constant, whose gradient is 0 even where x^-1 is not
// finite.
template <class T>
void power_backward(const PowerArgs& args, const T* src, const T* diff_dst, T* diff_src) {
  const T power = static_cast<T>(args.power), scale = static_cast<T>(args.scale);
  for (std::int64_t i = 0; i < args.count; ++i)
    diff_src[i] = power * scale == 0
                      ? T{0}
                      : diff_dst[i] * power * scale *
                            std::pow(static_cast<T>(args.shift) + scale * src[i], power - 1);
}

}  // namespace reference

OMNI_CODELET(PowerArgs, power_forward);   // {src R, dst W}
OMNI_CODELET(PowerArgs, power_backward);  // {src R, diff_dst R, diff_src W}

}  // namespace omni
