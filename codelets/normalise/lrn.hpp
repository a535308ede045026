// Local response normalisation works across channels: dst = src * scale^-beta with scale[k] = kappa
// + alpha * (sum of src^2 over the window of channel k).
//
// The window holds `size` channels, [k - (size-1)/2, k + size/2], clipped at both ends. An even
// size includes one more channel above k than below it, as in cuDNN. alpha is per element, as in
// Darknet; Caffe's alpha is divided by the size. The sum has all channels of the window, whereas
// Darknet leaves out channel k + size/2.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct LrnArgs {
  std::int64_t rows = 0;  // images * h * w
  int c = 0;
  int size = 5;
  float alpha = 1e-4f, beta = 0.75f, kappa = 1;
  constexpr int below() const { return (size - 1) / 2; }
  constexpr int above() const { return size / 2; }
};

// ThreeQuarters and Half compute scale^-beta by square roots, for the exponents that nets use.
struct ThreeQuarters {
  OMNI_HD float operator()(float scale) const {
    const float root = std::sqrt(scale);
    return 1 / (root * std::sqrt(root));
  }
};
struct Half {
  OMNI_HD float operator()(float scale) const { return 1 / std::sqrt(scale); }
};
struct AnyPower {
  float beta;
  OMNI_HD float operator()(float scale) const { return std::pow(scale, -beta); }
};

void with_power(float beta, auto use) {
  if (beta == 0.75f) return use(ThreeQuarters{});
  if (beta == 0.5f) return use(Half{});
  use(AnyPower{beta});
}

namespace reference {

// Returns the scale of channel k; x points to the channels of a pixel.
constexpr auto lrn_scale(const LrnArgs& args, const auto* x, int k) {
  decltype(x[0] * x[0]) sum = 0;
  for (int j = std::max(0, k - args.below()); j <= std::min(args.c - 1, k + args.above()); ++j)
    sum += x[j] * x[j];
  return static_cast<decltype(sum)>(args.kappa) + static_cast<decltype(sum)>(args.alpha) * sum;
}

// Returns the sum in the gradient of channel k. It is over the channels [k - above, k + below],
// whose windows contain channel k. A factor that all terms share is left out.
template <class T, class Scale>
constexpr Scale lrn_pull(const LrnArgs& args, const T* dst, const Scale* scale, const T* diff_dst,
                         int k) {
  Scale sum = 0;
  for (int j = std::max(0, k - args.above()); j <= std::min(args.c - 1, k + args.below()); ++j)
    sum += diff_dst[j] * dst[j] / scale[j];
  return sum;
}

template <class T>
void lrn_forward(const LrnArgs& args, const T* src, T* dst, T* scale) {
  for (std::int64_t row = 0; row < args.rows; ++row)
    for (int k = 0; k < args.c; ++k) {
      const std::int64_t at = row * args.c + k;
      scale[at] = lrn_scale(args, src + row * args.c, k);
      dst[at] = src[at] * std::pow(scale[at], -static_cast<T>(args.beta));
    }
}

template <class T>
void lrn_backward(const LrnArgs& args, const T* src, const T* dst, const T* scale,
                  const T* diff_dst, T* diff_src) {
  const T alpha = static_cast<T>(args.alpha), beta = static_cast<T>(args.beta);
  for (std::int64_t row = 0; row < args.rows; ++row)
    for (int k = 0; k < args.c; ++k) {
      const std::int64_t first = row * args.c, at = first + k;
      const T sum = lrn_pull(args, dst + first, scale + first, diff_dst + first, k);
      diff_src[at] = diff_dst[at] * std::pow(scale[at], -beta) - 2 * alpha * beta * src[at] * sum;
    }
}

}  // namespace reference

OMNI_CODELET(LrnArgs, lrn_forward);   // {src R, dst W, scale W}; scale has the size of src
OMNI_CODELET(LrnArgs, lrn_backward);  // {src R, dst R, scale R, diff_dst R, diff_src W}

}  // namespace omni
