#include "codelets/elementwise/accumulate.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void accumulate_vector(const AccumulateArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* __restrict src = buffers.get(0);
  float* __restrict dst = buffers.get(1);
  const std::int64_t count = args.count;
  for (std::int64_t i = 0; i < count; ++i) dst[i] += src[i];
}

void accumulate_reference(const AccumulateArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::accumulate(args, buffers.get(0), buffers.get(1));
}

Cost cost(const AccumulateArgs& args) {
  const auto count = static_cast<double>(args.count);
  return {.flops = count, .bytes = count * 3 * sizeof(float)};
}

std::uint64_t footprint(const AccumulateArgs& args) { return footprint_of(args.count); }

}  // namespace

Codelet<AccumulateArgs> accumulate_sum({
    .name = "accumulate",
    .color = 0x8D99AE,
    .implementations = {{"vector", accumulate_vector},
                        {"reference", accumulate_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::accumulate)},
    .cost = cost,
    .footprint = footprint,
});

void submit_accumulate(const AccumulateArgs& args, const Tensor& src, const Tensor& dst,
                       TaskTag tag) {
  accumulate_sum.submit(args, {read(src), accumulate(dst)}, tag);
}

}  // namespace omni
