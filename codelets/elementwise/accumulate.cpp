#include "codelets/elementwise/accumulate.hpp"

#include <algorithm>
#include <vector>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

std::size_t sources(const AccumulateArgs& args) { return static_cast<std::size_t>(args.sources); }

void accumulate_vector(const AccumulateArgs& args, const Buffers& buffers, DeviceContext&) {
  float* __restrict dst = buffers.get(0);
  const std::int64_t count = args.count;
  for (std::size_t source = 1; source <= sources(args); ++source) {
    float* __restrict src = buffers.get(source);
    for (std::int64_t i = 0; i < count; ++i) dst[i] += src[i];
    if (args.clear) std::fill_n(src, count, 0.0f);
  }
}

void accumulate_reference(const AccumulateArgs& args, const Buffers& buffers, DeviceContext&) {
  for (std::size_t source = 1; source <= sources(args); ++source)
    reference::accumulate(args, buffers.get(source), buffers.get(0));
}

Cost cost(const AccumulateArgs& args) {
  const double values = static_cast<double>(args.count) * args.sources;
  return {.flops = values, .bytes = values * (args.clear ? 4 : 3) * sizeof(float)};
}

std::uint64_t footprint(const AccumulateArgs& args) {
  return footprint_of(args.count, args.sources, args.clear);
}

}  // namespace

Codelet<AccumulateArgs> accumulate_sum({
    .name = "accumulate",
    .color = 0x8D99AE,
    .implementations = {{"vector", accumulate_vector},
                        {"reference", accumulate_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::accumulate, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                                                11, 12, 13, 14, 15)},
    .cost = cost,
    .footprint = footprint,
});

void submit_accumulate(const AccumulateArgs& args, const Tensor& src, const Tensor& dst,
                       TaskTag tag) {
  accumulate_sum.submit(args, {accumulate(dst), read(src)}, tag);
}

void submit_collect(std::span<Tensor* const> sources, const Tensor& dst, TaskTag tag) {
  std::vector<Access> accesses{accumulate(dst)};
  for (const Tensor* source : sources) accesses.push_back(read_write(*source));
  accumulate_sum.submit({.count = static_cast<std::int64_t>(dst.count()),
                         .sources = static_cast<int>(sources.size()),
                         .clear = true},
                        accesses, tag);
}

}  // namespace omni
