// This header has a grid-stride loop, which calls use(i) for every i below a count, and reductions
// over a block. `use` is a functor with an OMNI_HD call operator: lambdas cannot be made inside
// with_activation().
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/worker.hpp"

namespace omni {

inline constexpr unsigned kThreads = 256;  // per block

// Returns enough blocks for `count` threads, but no more than the device can keep busy.
inline dim3 blocks_for(const CudaWorker& worker, std::int64_t count) {
  constexpr int kBlocksPerMultiprocessor = 16;
  const std::int64_t wanted = (count + kThreads - 1) / kThreads;
  const std::int64_t most = std::int64_t{worker.multiprocessors()} * kBlocksPerMultiprocessor;
  return dim3(static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, most)));
}

// Returns how many blocks of kThreads threads the device runs at the same time.
template <auto kernel>
int resident_blocks(const CudaWorker& worker) {
  thread_local const int per_multiprocessor = [] {
    int blocks = 1;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
              &blocks, reinterpret_cast<const void*>(kernel), kThreads, 0),
          "asking how many blocks fit");
    return blocks;
  }();
  return per_multiprocessor * worker.multiprocessors();
}

template <class Use>
__global__ void elements_kernel(std::int64_t count, Use use) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    use(i);
}

template <class Use>
void for_each_element(CudaWorker& worker, std::int64_t count, Use use) {
  if (count > 0)
    launch(elements_kernel<Use>, blocks_for(worker, count), dim3(kThreads), 0, worker.stream(),
           count, use);
}

// The following functions reduce over the threads of a block, always in the same order.

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// Greater returns the larger value. NaN counts as larger than any number, so that it is not lost.
struct Greater {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

// Reduces over a warp, and returns the result in all its threads. Threads exchange values in pairs,
// and both combine the same two values, so Combine must be commutative.
template <class T, class Combine>
__device__ T reduce_warp(T value, Combine combine) {
  for (int gap = 16; gap > 0; gap /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, gap));
  return value;
}

// Reduces over a block, and returns the result in all its threads. A block has up to kMostWarps
// whole warps along x.
template <class T, class Combine>
__device__ T reduce_block(T value, Combine combine) {
  constexpr unsigned kMostWarps = 32;
  __shared__ T of_warp[kMostWarps];
  value = reduce_warp(value, combine);
  __syncthreads();  // until all threads have read the result of the last reduction
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) value = combine(value, of_warp[warp]);
  return value;
}

}  // namespace omni
