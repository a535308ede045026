// dst += src, for gradients that arrive from several consumers; or of several sources that are then
// cleared, for those that were summed up in several places.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

struct AccumulateArgs {
  std::int64_t count = 0;
  int sources = 1;
  bool clear = false;  // sources = 0 afterwards: they are ready to be added to
};

namespace reference {

template <class T>
void accumulate(const AccumulateArgs& args, T* src, T* dst) {
  for (std::int64_t i = 0; i < args.count; ++i) {
    dst[i] += src[i];
    if (args.clear) src[i] = 0;
  }
}

}  // namespace reference

namespace gpu {
KernelFunction<AccumulateArgs> accumulate;
}

extern Codelet<AccumulateArgs> accumulate_sum;  // {dst accumulate, sources R, or RW if clear}

// The most sources that one task may read.
inline constexpr int kMostSources = 15;
void submit_collect(std::span<Tensor* const> sources, const Tensor& dst, TaskTag tag);
// In pairs, and their sums in pairs: the same bits, whoever has added up the half of them before.
void submit_collect_in_pairs(std::span<Tensor* const> sources, Tensor& dst, TaskTag tag);

}  // namespace omni
