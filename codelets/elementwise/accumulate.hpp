// Accumulating computes dst += src, for one source or several. It adds up gradients from several
// consumers of a blob, and partial sums. Partial sums are cleared afterwards.
#pragma once

#include <cstdint>
#include <span>

#include "codelets/elementwise/sum_tree.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

struct AccumulateArgs {
  std::int64_t count = 0;
  int sources = 1;
  bool clear = false;  // true: sources become 0, ready to be added to
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

inline constexpr int kMostSources = 15;  // of one task
void submit_collect(std::span<Tensor* const> sources, const Tensor& dst, TaskTag tag);
// Adds up pairs of `sums`, which are the leaves `of` a tree with `leaves` leaves. Afterwards
// sums_of(of, leaves) are in their first leaves, and all other leaves are 0.
void submit_collect_in_pairs(std::span<Tensor* const> sums, Leaves of, int leaves, TaskTag tag);

}  // namespace omni
