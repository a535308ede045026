#include "codelets/functions/prelu.hpp"

#include <array>
#include <numeric>

#include "codelets/elementwise/channel_bias.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// Calls use(i, slope) for every value. With one slope there is one loop over all values.
void for_each_slope(const PReluArgs& args, const float* slopes, auto use) {
  if (!args.learned || args.c == 1) {
    const float slope = args.learned ? slopes[0] : args.slope;
    for (std::int64_t i = 0; i < args.rows * args.c; ++i) use(i, slope);
    return;
  }
  for (std::int64_t first = 0; first < args.rows * args.c; first += args.c)
    for (int k = 0; k < args.c; ++k) use(first + k, slopes[k]);
}

void forward_vector(const PReluArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict src = buffers.get<T>(0);
    T* __restrict dst = buffers.get<T>(1);
    for_each_slope(args, args.learned ? buffers.get(2) : nullptr, [=](std::int64_t i, float slope) {
      const float x = src[i];
      dst[i] = x > 0 ? x : x * slope;
    });
  });
}

void backward_vector(const PReluArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict src = buffers.get<T>(0);
    const T* __restrict diff_dst = buffers.get<T>(1);
    T* __restrict diff_src = buffers.get<T>(2);
    for_each_slope(args, args.learned ? buffers.get(3) : nullptr, [=](std::int64_t i, float slope) {
      const float diff = diff_dst[i];
      diff_src[i] = static_cast<float>(src[i]) > 0 ? diff : diff * slope;
    });
  });
}

void backward_slopes_vector(const PReluArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict src = buffers.get<T>(0);
    const T* __restrict diff_dst = buffers.get<T>(1);
    const auto share = [=](std::int64_t i) {
      const float x = src[i];
      return (x > 0 ? 0.0f : x) * static_cast<float>(diff_dst[i]);
    };
    float* const sums = buffers.get(2);
    if (args.c > 1) return add_sums_by_column(args.rows, args.c, sums, share);
    // One column is summed up in lanes, which a vector unit adds at the same time.
    constexpr int kLanes = 64;
    const std::int64_t in_lanes = args.rows / kLanes * kLanes;
    std::array<float, kLanes> lanes{};
    add_sums_by_column(in_lanes / kLanes, kLanes, lanes.data(), share);
    for (std::int64_t i = in_lanes; i < args.rows; ++i) lanes[i - in_lanes] += share(i);
    sums[0] += std::accumulate(lanes.begin(), lanes.end(), 0.0f);
  });
}

constexpr std::uint32_t kPReluColor = 0xE0A100;

std::uint64_t footprint(const PReluArgs& args) {
  return footprint_of(args.rows, args.c, args.learned);
}

}  // namespace

Codelet<PReluArgs> prelu_forward({
    .name = "prelu_forward",
    .color = kPReluColor,
    .implementations = OMNI_IMPLEMENTATIONS(prelu_forward, forward_vector, 0, 1),
    .cost = cost_per_value<2, 8>,
    .footprint = footprint,
});

Codelet<PReluArgs> prelu_backward({
    .name = "prelu_backward",
    .color = kPReluColor,
    .implementations = OMNI_IMPLEMENTATIONS(prelu_backward, backward_vector, 0, 1, 2),
    .cost = cost_per_value<2, 12>,
    .footprint = footprint,
});

Codelet<PReluArgs> prelu_backward_slopes({
    .name = "prelu_backward_slopes",
    .color = kPReluColor,
    .implementations = OMNI_IMPLEMENTATIONS(prelu_backward_slopes, backward_slopes_vector, 0, 1),
    .cost = cost_per_value<3, 8>,
    .footprint = footprint,
});

}  // namespace omni
