// This header declares what nvcc provides and g++ does not. It is included before every .cu file
// when GPUs are played. A `__shared__` variable is a thread_local variable, because a thread of the
// operating system runs one block at a time. There is no `extern __shared__`.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/played_gpu/kernel.hpp"

#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

using std::max;
using std::min;

inline void __syncthreads() { omni::played::wait_for_block(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFF) {
  omni::played::exchange_in_warp(mask, 0, omni::played::lane_of_thread());
}

// In a shuffle, `width` lanes (a power of two) form a group.
namespace omni::played {
template <class T>
T shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange_in_warp(mask, bits, source);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline int group_of_thread(int width) { return lane_of_thread() & ~(width - 1); }
}  // namespace omni::played

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  using namespace omni::played;
  return shuffle(mask, value, group_of_thread(width) + (source & (width - 1)));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  using namespace omni::played;
  const int source = lane_of_thread() - static_cast<int>(delta);
  return shuffle(mask, value, source < group_of_thread(width) ? lane_of_thread() : source);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  using namespace omni::played;
  const int source = lane_of_thread() + static_cast<int>(delta);
  return shuffle(mask, value, source >= group_of_thread(width) + width ? lane_of_thread() : source);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize) {
  using namespace omni::played;
  const int source = lane_of_thread() ^ lanes;
  return shuffle(mask, value, source >= group_of_thread(width) + width ? lane_of_thread() : source);
}

// The next functions access memory. Several streams may add to the same place at the same time.
template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T atomicAdd(T* address, T value) {
  return std::atomic_ref<T>(*address).fetch_add(value);
}

inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

// These functions of a device have other names on a CPU.
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fmul_rn(float x, float y) {
  const volatile float rounded = x * y;  // not part of an instruction that also adds
  return rounded;
}
