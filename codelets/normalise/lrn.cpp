// The sum of each window is computed directly, which vectorises along the channels and does not
// cancel. A running sum, which adds and subtracts at its ends, would not vectorise and would
// cancel.
#include "codelets/normalise/lrn.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// Computes sums[k] = values[k] + ... + values[k + size - 1] for k < c. Usual sizes are compile-time
// constants, so that a sum stays in a register.
void window_sums(const float* __restrict values, int c, int size, float* __restrict sums) {
  const auto fixed = [=]<int taps>() {
    for (int k = 0; k < c; ++k) {
      float sum = values[k];
      for (int tap = 1; tap < taps; ++tap) sum += values[k + tap];
      sums[k] = sum;
    }
  };
  if (size == 3) return fixed.template operator()<3>();
  if (size == 5) return fixed.template operator()<5>();
  std::copy_n(values, c, sums);
  for (int tap = 1; tap < size; ++tap)
    for (int k = 0; k < c; ++k) sums[k] += values[k + tap];
}

// Padded has the channels of a pixel between zeros, so that windows need not be clipped, and memory
// for the sums.
struct Padded {
  float *values, *sums;
  Padded(DeviceContext& context, int c, int before, int after) {
    float* scratch = context.scratch(before + after + 2 * c);
    std::fill_n(scratch, before + c + after, 0.0f);
    values = scratch + before;
    sums = scratch + before + c + after;
  }
};

// Limits the window to 2 c channels, which cover all channels around any centre.
LrnArgs clipped(LrnArgs args) {
  args.size = std::min(args.size, 2 * args.c);
  return args;
}

constexpr auto lrn_forward_vector = []<class T>(T, const LrnArgs& given, const Buffers& buffers,
                                                DeviceContext& context) {
  const LrnArgs args = clipped(given);
  const Padded padded(context, args.c, args.below(), args.above());
  with_power(args.beta, [&, c = args.c, alpha = args.alpha, kappa = args.kappa](auto power) {
    const T* __restrict src = buffers.get<T>(0);
    T* __restrict dst = buffers.get<T>(1);
    float* __restrict scale = buffers.get(2);
    float* __restrict squares = padded.values;
    const float* __restrict sums = padded.sums;
    for (std::int64_t row = 0; row < args.rows; ++row, src += c, dst += c, scale += c) {
      for (int k = 0; k < c; ++k) squares[k] = src[k] * src[k];
      window_sums(padded.values - args.below(), c, args.size, padded.sums);
      for (int k = 0; k < c; ++k) {
        scale[k] = kappa + alpha * sums[k];
        dst[k] = src[k] * power(scale[k]);
      }
    }
  });
};

constexpr auto lrn_backward_vector = []<class T>(T, const LrnArgs& given, const Buffers& buffers,
                                                 DeviceContext& context) {
  const LrnArgs args = clipped(given);
  const Padded padded(context, args.c, args.above(), args.below());
  with_power(args.beta, [&, c = args.c, factor = 2 * args.alpha * args.beta](auto power) {
    const T* __restrict src = buffers.get<T>(0);
    const T* __restrict dst = buffers.get<T>(1);
    const float* __restrict scale = buffers.get(2);
    const T* __restrict diff_dst = buffers.get<T>(3);
    T* __restrict diff_src = buffers.get<T>(4);
    float* __restrict shares = padded.values;
    const float* __restrict sums = padded.sums;
    for (std::int64_t row = 0; row < args.rows; ++row) {
      for (int k = 0; k < c; ++k) shares[k] = diff_dst[k] * dst[k] / scale[k];
      window_sums(padded.values - args.above(), c, args.size, padded.sums);
      for (int k = 0; k < c; ++k)
        diff_src[k] = diff_dst[k] * power(scale[k]) - factor * src[k] * sums[k];
      src += c, dst += c, scale += c, diff_dst += c, diff_src += c;
    }
  });
};

Cost forward_cost(const LrnArgs& args) {
  const double count = static_cast<double>(args.rows) * args.c;
  return {.flops = count * (args.size + 7), .bytes = count * 3 * sizeof(float)};
}

Cost backward_cost(const LrnArgs& args) {
  const double count = static_cast<double>(args.rows) * args.c;
  return {.flops = count * (args.size + 10), .bytes = count * 5 * sizeof(float)};
}

std::uint64_t footprint(const LrnArgs& args) {
  const bool square_roots = args.beta == 0.75f || args.beta == 0.5f;
  return footprint_of(args.rows, args.c, args.size, square_roots);
}

constexpr std::uint32_t kLrnColor = 0xB08BBB;

}  // namespace

Codelet<LrnArgs> lrn_forward({
    .name = "lrn_forward",
    .color = kLrnColor,
    .implementations = OMNI_IMPLEMENTATIONS(lrn_forward, by_values<lrn_forward_vector>, 0, 1),
    .cost = forward_cost,
    .footprint = footprint,
});

Codelet<LrnArgs> lrn_backward({
    .name = "lrn_backward",
    .color = kLrnColor,
    .implementations = OMNI_IMPLEMENTATIONS(lrn_backward, by_values<lrn_backward_vector>, 0, 1, 3,
                                            4),
    .cost = backward_cost,
    .footprint = footprint,
});

}  // namespace omni
