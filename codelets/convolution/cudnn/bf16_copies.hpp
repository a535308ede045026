// What cuDNN multiplies in bf16 are copies: all that outlives a convolution is in floats.
#pragma once

#include <cstdint>

#include "runtime/cuda/worker.hpp"

namespace omni::gpu {

using Bf16 = std::uint16_t;  // the upper half of a float

// `to` begins at a multiple of 8 bytes, as `from` does below.
void round_to_bf16(CudaWorker& worker, std::int64_t count, const float* from, Bf16* to);
// to = from + keep * to, where 0 does not read.
void add_bf16(CudaWorker& worker, std::int64_t count, const Bf16* from, float keep, float* to);

}  // namespace omni::gpu
