#include "codelets/elementwise/round.hpp"

#include <algorithm>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void round_on_cpu(const RoundArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* src = buffers.get(0);
  with_values(buffers, [&]<class T>(T) { std::copy_n(src, args.count, buffers.get<T>(1)); });
}

Cost cost(const RoundArgs& args) {
  return {.bytes = 2.0 * sizeof(float) * static_cast<double>(args.count)};
}

std::uint64_t footprint(const RoundArgs& args) { return footprint_of(args.count); }

}  // namespace

Codelet<RoundArgs> round_values({
    .name = "round",
    .color = 0xADB5BD,
    .implementations = {{"vector", round_on_cpu, nullptr, Role::fast, nullptr, {1}},
                        OMNI_GPU_IMPLEMENTATION(gpu::round_values, 1)},
    .cost = cost,
    .footprint = footprint,
});

void submit_round(const RoundArgs& args, const Tensor& src, const Tensor& dst, TaskTag tag) {
  round_values.submit(args, {read(src), write(dst)}, tag);
}

}  // namespace omni
