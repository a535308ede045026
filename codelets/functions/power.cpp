#include "codelets/functions/power.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void forward_vector(const PowerArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict src = buffers.get<T>(0);
    T* __restrict dst = buffers.get<T>(1);
    with_power_of(args, [=, count = args.count](auto f) {
      for (std::int64_t i = 0; i < count; ++i) dst[i] = f(static_cast<float>(src[i]));
    });
  });
}

void backward_vector(const PowerArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict src = buffers.get<T>(0);
    const T* __restrict diff_dst = buffers.get<T>(1);
    T* __restrict diff_src = buffers.get<T>(2);
    with_power_of(args, [=, count = args.count](auto f) {
      for (std::int64_t i = 0; i < count; ++i)
        diff_src[i] = diff_dst[i] * f.gradient(static_cast<float>(src[i]));
    });
  });
}

// Returns the operations per value. A logarithm with an exponential counts as 40.
double operations(const PowerArgs& args) { return args.power == 1 || args.power == 2 ? 3 : 40; }

Cost forward_cost(const PowerArgs& args) {
  const auto count = static_cast<double>(args.count);
  return {.flops = count * operations(args), .bytes = count * 2 * sizeof(float)};
}

Cost backward_cost(const PowerArgs& args) {
  const auto count = static_cast<double>(args.count);
  return {.flops = count * (operations(args) + 1), .bytes = count * 3 * sizeof(float)};
}

constexpr std::uint32_t kPowerColor = 0xC2A14E;

}  // namespace

Codelet<PowerArgs> power_forward({
    .name = "power_forward",
    .color = kPowerColor,
    .implementations = OMNI_IMPLEMENTATIONS(power_forward, forward_vector, 0, 1),
    .cost = forward_cost,
    .footprint = footprint_by<&PowerArgs::count, &PowerArgs::power>,
});

Codelet<PowerArgs> power_backward({
    .name = "power_backward",
    .color = kPowerColor,
    .implementations = OMNI_IMPLEMENTATIONS(power_backward, backward_vector, 0, 1, 2),
    .cost = backward_cost,
    .footprint = footprint_by<&PowerArgs::count, &PowerArgs::power>,
});

}  // namespace omni
