// Between floats and bf16 on a GPU, in the worker's stream. Included by .cu files, and by
// other files that use CUDA.
#pragma once

#include <cstdint>

#include "runtime/bf16/bf16.hpp"
#include "runtime/cuda/worker.hpp"

namespace omni::gpu {

void round(CudaWorker& worker, std::int64_t count, const float* from, Bf16* to);
// adds: to what is there.
void widen(CudaWorker& worker, std::int64_t count, const Bf16* from, float* to, bool adds = false);

}  // namespace omni::gpu
