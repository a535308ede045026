// These tests check what kernels rely on: threads of a block that wait for each other, shuffles,
// shared memory, and atomic sums.
#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "runtime/cuda/launch.cuh"
#include "tests/played_gpu/tests/device_array.hpp"

namespace omni {
namespace {

using test::DeviceArray;
using test::TestStream;

constexpr unsigned kAll = 0xFFFFFFFF;

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

// Every block computes the sum of its part: in warps by shuffles, then over the warps by one
// thread.
__global__ void sum_kernel(int count, const float* src, float* dst) {
  __shared__ float warps[32];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float sum = i < count ? __ldg(src + i) : 0;
  for (int lanes = warpSize / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAll, sum, lanes);
  if (threadIdx.x % warpSize == 0) warps[threadIdx.x / warpSize] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (unsigned warp = 0; warp < blockDim.x / warpSize; ++warp) total += warps[warp];
  dst[blockIdx.x] = total;
}

TEST(Kernels, blocks_sum_by_shuffles_and_shared_memory) {
  TestStream stream;
  const DeviceArray src(counted(1000));
  const DeviceArray dst(4);
  launch(sum_kernel, dim3(4), dim3(256), 0, stream, 1000, src.begin(), dst.begin());
  EXPECT_EQ(dst.values(stream), (std::vector<float>{32896, 98432, 163968, 205204}));
}

// Adds up by a tree in shared memory, whose threads meet once per level.
__global__ void tree_kernel(const float* src, float* dst) {
  __shared__ float values[1024];
  values[threadIdx.x] = src[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
  }
  if (threadIdx.x == 0) dst[blockIdx.x] = values[0];
}

TEST(Kernels, a_tree_of_1024_threads) {
  TestStream stream;
  const DeviceArray src(counted(3072)), dst(3);
  launch(tree_kernel, dim3(3), dim3(1024), 0, stream, src.begin(), dst.begin());
  EXPECT_EQ(dst.values(stream), (std::vector<float>{524800, 1573376, 2621952}));
}

__global__ void shuffles_kernel(float* dst) {
  const float value = static_cast<float>(threadIdx.x);
  float* row = dst + threadIdx.x * 5;
  row[0] = __shfl_sync(kAll, value, 3);
  row[1] = __shfl_up_sync(kAll, value, 1);
  row[2] = __shfl_down_sync(kAll, value, 2);
  row[3] = __shfl_xor_sync(kAll, value, 5);
  row[4] = __shfl_down_sync(kAll, value, 1, 8);  // in groups of eight
}

TEST(Kernels, shuffles_reach_the_lanes_they_name) {
  TestStream stream;
  const DeviceArray dst(32 * 5);
  launch(shuffles_kernel, dim3(1), dim3(32), 0, stream, dst.begin());
  const auto values = dst.values(stream);
  for (int lane = 0; lane < 32; ++lane) {
    const std::vector<int> expected{3, lane == 0 ? 0 : lane - 1, lane + 2 < 32 ? lane + 2 : lane,
                                    lane ^ 5, lane % 8 == 7 ? lane : lane + 1};
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(lane) * 5 + i], static_cast<float>(expected[i]))
          << "lane " << lane << ", shuffle " << i;
  }
}

// The kernel shuffles in half a warp, and in the last warp of a block that is no multiple of 32.
__global__ void parts_of_warps_kernel(float* dst) {
  float sum = 1;
  const unsigned half = threadIdx.x < 16 ? 0x0000FFFF : 0xFFFF0000;
  if (threadIdx.x < 32) {
    for (int lanes = 8; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(half, sum, lanes);
  } else {
    for (int lanes = 4; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xFF, sum, lanes);
  }
  __syncwarp(threadIdx.x < 32 ? kAll : 0xFF);
  dst[threadIdx.x] = sum;
}

TEST(Kernels, parts_of_warps_meet_apart) {
  TestStream stream;
  const DeviceArray dst(40);
  launch(parts_of_warps_kernel, dim3(1), dim3(40), 0, stream, dst.begin());
  std::vector<float> expected(32, 16);
  expected.resize(40, 8);
  EXPECT_EQ(dst.values(stream), expected);
}

__global__ void indices_kernel(float* dst) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  atomicAdd(dst + block * blockDim.x * blockDim.y * blockDim.z + thread, 1.0f);
}

TEST(Kernels, every_thread_of_three_dimensions_runs_once) {
  TestStream stream;
  const DeviceArray dst(std::vector<float>(24 * 210));
  launch(indices_kernel, dim3(2, 3, 4), dim3(5, 6, 7), 0, stream, dst.begin());
  EXPECT_EQ(dst.values(stream), std::vector<float>(24 * 210, 1));
}

__global__ void add_kernel(float* sum, int* number) {
  atomicAdd(sum, 0.5f);
  atomicAdd(number, 2);
}

TEST(Kernels, atomic_sums_of_two_streams_are_complete) {
  TestStream first, second;
  const DeviceArray sums(std::vector<float>(2));
  for (int i = 0; i < 10; ++i)
    for (cudaStream_t stream : {cudaStream_t(first), cudaStream_t(second)})
      launch(add_kernel, dim3(4), dim3(64), 0, stream, sums.begin(),
             reinterpret_cast<int*>(sums.begin() + 1));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const auto values = sums.values(first);
  EXPECT_EQ(values[0], 2560);
  EXPECT_EQ(std::bit_cast<int>(values[1]), 10240);
}

__global__ void round_kernel(const float* src, float* dst) {
  dst[threadIdx.x] = __bfloat162float(__float2bfloat16(src[threadIdx.x]));
}

TEST(Kernels, bfloat16_rounds_to_nearest_even) {
  TestStream stream;
  const DeviceArray src(std::vector<float>{1, 1.00390625f, 1.01171875f, -3.1415927f}), dst(4);
  launch(round_kernel, dim3(1), dim3(4), 0, stream, src.begin(), dst.begin());
  EXPECT_EQ(dst.values(stream), (std::vector<float>{1, 1, 1.015625f, -3.140625f}));
}

}  // namespace
}  // namespace omni
