// Floats rounded to bf16: how images enter a net whose layers hand on bf16.
#pragma once

#include <cstdint>

#include "runtime/tasks/kernel.hpp"

namespace omni {

struct RoundArgs {
  std::int64_t count = 0;
};

namespace gpu {
KernelFunction<RoundArgs> round_values;
}

extern Codelet<RoundArgs> round_values;  // {src R, dst W, in bf16}

void submit_round(const RoundArgs& args, const Tensor& src, const Tensor& dst, TaskTag tag = {});

}  // namespace omni
