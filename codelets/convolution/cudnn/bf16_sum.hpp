// What cuDNN gives in bf16, as a part of a sum in floats.
#pragma once

#include <cstdint>

#include "runtime/bf16/bf16.hpp"
#include "runtime/cuda/worker.hpp"

namespace omni::gpu {

// to = from + keep * to, where 0 does not read.
void add_bf16(CudaWorker& worker, std::int64_t count, const Bf16* from, float keep, float* to);

}  // namespace omni::gpu
