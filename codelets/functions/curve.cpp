#include "codelets/functions/curve.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void curve_forward_vector(const CurveArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict src = buffers.get<T>(0);
    T* __restrict dst = buffers.get<T>(1);
    with_curve(args, [=, count = args.count](auto f) {
      for (std::int64_t i = 0; i < count; ++i) dst[i] = f(static_cast<float>(src[i]));
    });
  });
}

void curve_backward_vector(const CurveArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict src = buffers.get<T>(0);
    const T* __restrict diff_dst = buffers.get<T>(1);
    T* __restrict diff_src = buffers.get<T>(2);
    with_curve(args, [=, count = args.count](auto f) {
      for (std::int64_t i = 0; i < count; ++i)
        diff_src[i] = diff_dst[i] * f.gradient(static_cast<float>(src[i]));
    });
  });
}

constexpr std::uint32_t kCurveColor = 0xD8A27A;

}  // namespace

// An exponential counts as 16 operations.
Codelet<CurveArgs> curve_forward({
    .name = "curve_forward",
    .color = kCurveColor,
    .implementations = OMNI_IMPLEMENTATIONS(curve_forward, curve_forward_vector, 0, 1),
    .cost = cost_per_value<18, 8>,
    .footprint = footprint_by<&CurveArgs::count, &CurveArgs::curve>,
});

Codelet<CurveArgs> curve_backward({
    .name = "curve_backward",
    .color = kCurveColor,
    .implementations = OMNI_IMPLEMENTATIONS(curve_backward, curve_backward_vector, 0, 1, 2),
    .cost = cost_per_value<19, 12>,
    .footprint = footprint_by<&CurveArgs::count, &CurveArgs::curve>,
});

}  // namespace omni
