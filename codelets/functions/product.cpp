#include "codelets/functions/product.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void product_vector(const MultiplyElementsArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict a = buffers.get<T>(0);
    const T* __restrict b = buffers.get<T>(1);
    T* __restrict dst = buffers.get<T>(2);
    for (std::int64_t i = 0; i < args.count; ++i) dst[i] = a[i] * b[i];
  });
}

}  // namespace

Codelet<MultiplyElementsArgs> multiply_elements({
    .name = "multiply_elements",
    .color = 0x98DF8A,
    .implementations = OMNI_IMPLEMENTATIONS(multiply_elements, product_vector, 0, 1, 2),
    .cost = cost_per_value<1, 12>,
    .footprint = footprint_by<&MultiplyElementsArgs::count>,
});

}  // namespace omni
