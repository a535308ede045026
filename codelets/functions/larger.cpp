#include "codelets/functions/larger.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void larger_vector(const LargerArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict a = buffers.get<T>(0);
    const T* __restrict b = buffers.get<T>(1);
    T* __restrict dst = buffers.get<T>(2);
    for (std::int64_t i = 0; i < args.count; ++i)
      dst[i] = LargerOf()(static_cast<float>(a[i]), static_cast<float>(b[i]));
  });
}

void larger_gradient_vector(const LargerArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict a = buffers.get<T>(0);
    const T* __restrict b = buffers.get<T>(1);
    const T* __restrict diff_dst = buffers.get<T>(2);
    T* __restrict diff = buffers.get<T>(3);
    for (std::int64_t i = 0; i < args.count; ++i)
      diff[i] = LargerGradient{args.of_first}(static_cast<float>(a[i]), static_cast<float>(b[i]),
                                              static_cast<float>(diff_dst[i]));
  });
}

}  // namespace

Codelet<LargerArgs> larger_forward({
    .name = "larger_forward",
    .color = 0x98DF8A,
    .implementations = OMNI_IMPLEMENTATIONS(larger_forward, larger_vector, 0, 1, 2),
    .cost = cost_per_value<1, 12>,
    .footprint = footprint_by<&LargerArgs::count>,
});

Codelet<LargerArgs> larger_backward({
    .name = "larger_backward",
    .color = 0x98DF8A,
    .implementations = OMNI_IMPLEMENTATIONS(larger_backward, larger_gradient_vector, 0, 1, 2, 3),
    .cost = cost_per_value<1, 16>,
    .footprint = footprint_by<&LargerArgs::count>,
});

}  // namespace omni
