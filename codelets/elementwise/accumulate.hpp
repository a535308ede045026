// dst += src, for gradients that arrive from several consumers.
#pragma once

#include <cstdint>

#include "runtime/tasks/kernel.hpp"

namespace omni {

struct AccumulateArgs {
  std::int64_t count = 0;
};

namespace reference {

template <class T>
void accumulate(const AccumulateArgs& args, const T* src, T* dst) {
  for (std::int64_t i = 0; i < args.count; ++i) dst[i] += src[i];
}

}  // namespace reference

namespace gpu {
KernelFunction<AccumulateArgs> accumulate;
}

extern Codelet<AccumulateArgs> accumulate_sum;  // {src R, dst accumulate}

void submit_accumulate(const AccumulateArgs& args, const Tensor& src, const Tensor& dst,
                       TaskTag tag = {});

}  // namespace omni
