#include "codelets/elementwise/accumulate.hpp"

#include <algorithm>
#include <vector>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

std::size_t sources(const AccumulateArgs& args) { return args.sources; }

// Adds in blocks, so that the sums of a block stay in the first-level cache.
constexpr auto accumulate_vector = []<class T>(T, const AccumulateArgs& args,
                                               const Buffers& buffers, DeviceContext&) {
  constexpr std::int64_t kBlock = 1024;
  T* const dst = buffers.get<T>(0);
  for (std::int64_t at = 0; at < args.count; at += kBlock) {
    const std::int64_t count = std::min(kBlock, args.count - at);
    float sums[kBlock];
    std::copy_n(dst + at, count, sums);
    for (std::size_t source = 1; source <= sources(args); ++source) {
      T* const src = buffers.get<T>(source) + at;
      for (std::int64_t i = 0; i < count; ++i) sums[i] += src[i];
      if (args.clear) std::fill_n(src, count, T(0.0f));
    }
    std::copy_n(sums, count, dst + at);
  }
};

void accumulate_reference(const AccumulateArgs& args, const Buffers& buffers, DeviceContext&) {
  for (std::size_t source = 1; source <= sources(args); ++source)
    reference::accumulate(args, buffers.get(source), buffers.get(0));
}

Cost cost(const AccumulateArgs& args) {
  const double values = static_cast<double>(args.count) * args.sources;
  return {.flops = values, .bytes = values * (args.clear ? 4 : 3) * sizeof(float)};
}

}  // namespace

Codelet<AccumulateArgs> accumulate_sum({
    .name = "accumulate",
    .color = 0x8D99AE,
    .implementations = {{.name = "vector",
                         .kernel = by_values<accumulate_vector>,
                         .in_bf16 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
                        {"reference", accumulate_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::accumulate, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                                                11, 12, 13, 14, 15)},
    .cost = cost,
    .footprint =
        footprint_by<&AccumulateArgs::count, &AccumulateArgs::sources, &AccumulateArgs::clear>,
    .revision = 2,
});

void submit_collect(std::span<Tensor* const> sources, const Tensor& dst, TaskTag tag) {
  const std::size_t count = std::min<std::size_t>(sources.size(), kMostSources);
  std::vector<Access> accesses{accumulate(dst)};
  for (const Tensor* source : sources.first(count)) accesses.push_back(read_write(*source));
  accumulate_sum.submit({.count = static_cast<std::int64_t>(dst.count()),
                         .sources = static_cast<int>(count),
                         .clear = true},
                        accesses, tag);
  if (count < sources.size()) submit_collect(sources.subspan(count), dst, tag);
}

void submit_collect_in_pairs(std::span<Tensor* const> sums, Leaves of, int leaves, TaskTag tag) {
  std::vector<Leaves> single;
  for (int leaf = of.first; leaf < of.end; ++leaf) single.push_back({leaf, leaf + 1});
  add_pairs(single, leaves, [&](std::size_t left, std::size_t right) {
    submit_collect({&sums[right], 1}, *sums[left], tag);
  });
}

}  // namespace omni
