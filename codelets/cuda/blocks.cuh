// Reductions over the threads of a block, in an order that never changes.
#pragma once

namespace omni {

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// NaN wins, so that it is noticed.
struct Greater {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

// All threads of a warp get the result. An exchange of partners: both see the same two values, and
// Combine must not mind their order.
template <class T, class Combine>
__device__ T reduce_warp(T value, Combine combine) {
  for (int gap = 16; gap > 0; gap /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, gap));
  return value;
}

// All threads of a block get the result; blocks are whole warps along x, up to `kMostWarps`.
template <class T, class Combine>
__device__ T reduce_block(T value, Combine combine) {
  constexpr unsigned kMostWarps = 32;
  __shared__ T of_warp[kMostWarps];
  value = reduce_warp(value, combine);
  __syncthreads();  // the result before this one has been read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) value = combine(value, of_warp[warp]);
  return value;
}

}  // namespace omni
