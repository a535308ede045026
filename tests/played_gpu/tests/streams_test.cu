// These tests check what a program that uses a device relies on: the order of work in a stream,
// copies, events and errors.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/launch.cuh"
#include "tests/played_gpu/tests/device_array.hpp"

namespace omni {
namespace {

using test::DeviceArray;
using test::Pinned;
using test::Stop;
using test::TestStream;

__global__ void fill_kernel(int count, float value, float* dst) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) dst[i] = value;
}

constexpr int kCount = 1000;
void fill(cudaStream_t stream, float* dst, float value) {
  launch(fill_kernel, dim3(8), dim3(128), 0, stream, kCount, value, dst);
}

TEST(Streams, work_is_done_in_order_while_the_caller_goes_on) {
  TestStream stream;
  DeviceArray data(kCount);
  Pinned result(kCount);
  Stop stop(stream);
  fill(stream, data.begin(), 1);
  fill(stream, data.begin(), 2);
  ASSERT_EQ(
      cudaMemcpyAsync(result.begin(), data.begin(), data.bytes(), cudaMemcpyDeviceToHost, stream),
      cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);  // no error, but noted as one
  stop.end();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_EQ(result.values(), std::vector<float>(kCount, 2));
}

TEST(Streams, arguments_are_those_of_the_launch) {
  TestStream stream;
  DeviceArray data(kCount);
  Stop stop(stream);
  float value = 3;
  launch(fill_kernel, dim3(8), dim3(128), 0, stream, kCount, value, data.begin());
  value = 4;
  stop.end();
  EXPECT_EQ(data.values(stream), std::vector<float>(kCount, 3));
}

TEST(Streams, a_copy_takes_pageable_memory_at_once_and_pinned_memory_in_its_turn) {
  TestStream stream;
  DeviceArray first(kCount), second(kCount);
  std::vector<float> pageable(kCount, 1);
  Pinned pinned(kCount, 1);
  Stop stop(stream);
  cudaMemcpyAsync(first.begin(), pageable.data(), first.bytes(), cudaMemcpyHostToDevice, stream);
  cudaMemcpyAsync(second.begin(), pinned.begin(), second.bytes(), cudaMemcpyHostToDevice, stream);
  pageable.assign(kCount, 2);
  pinned.fill(2);
  stop.end();
  EXPECT_EQ(first.values(stream), std::vector<float>(kCount, 1));
  EXPECT_EQ(second.values(stream), std::vector<float>(kCount, 2));
}

TEST(Streams, a_copy_of_rows_leaves_what_is_between_them) {
  TestStream stream;
  const DeviceArray data(std::vector<float>(6));
  const std::vector<float> rows{1, 2, 3, 4};
  cudaMemcpy2DAsync(data.begin(), 3 * sizeof(float), rows.data(), 2 * sizeof(float),
                    2 * sizeof(float), 2, cudaMemcpyHostToDevice, stream);
  EXPECT_EQ(data.values(stream), (std::vector<float>{1, 2, 0, 3, 4, 0}));
}

TEST(Streams, one_waits_for_the_event_of_another) {
  TestStream first, second;
  DeviceArray data(kCount);
  cudaEvent_t event;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);  // of an event that was never recorded
  Stop stop(first);
  fill(first, data.begin(), 1);
  cudaEventRecord(event, first);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  cudaStreamWaitEvent(second, event);
  fill(second, data.begin(), 2);
  EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
  cudaGetLastError();
  stop.end();
  EXPECT_EQ(data.values(second), std::vector<float>(kCount, 2));
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST(Streams, the_default_stream_waits_for_blocking_ones_and_they_for_it) {
  TestStream blocking(cudaStreamDefault), free;
  DeviceArray data(kCount);
  {
    Stop stop(blocking);
    fill(nullptr, data.begin(), 1);
    EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(free), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  {
    Stop stop(nullptr);
    fill(blocking, data.begin(), 2);
    EXPECT_EQ(cudaStreamQuery(blocking), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(free), cudaSuccess);
  }
  EXPECT_EQ(data.values(blocking), std::vector<float>(kCount, 2));
  cudaGetLastError();
}

TEST(Streams, events_measure_time) {
  TestStream stream;
  cudaEvent_t begin, end;
  ASSERT_EQ(cudaEventCreate(&begin), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  float milliseconds = -1;
  cudaEventRecord(begin, stream);
  cudaEventRecord(end, stream);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}

TEST(Streams, what_no_device_can_launch_is_refused_and_the_device_lives_on) {
  TestStream stream;
  DeviceArray data(kCount);
  const auto refused = [&](dim3 grid, dim3 block, std::size_t shared = 0) {
    EXPECT_THROW(launch(fill_kernel, grid, block, shared, stream, kCount, 1.0f, data.begin()),
                 CudaError);
    return cudaGetLastError();
  };
  EXPECT_EQ(refused(dim3(1), dim3(1025)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(dim3(1), dim3(64, 32)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(dim3(1), dim3(1, 1, 65)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(dim3(1), dim3(0)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(dim3(0), dim3(1)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(dim3(1, 65536), dim3(1)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(dim3(1, 1, 65536), dim3(1)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(dim3(0x80000000u), dim3(1)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(refused(dim3(1), dim3(1), 1 << 20), cudaErrorInvalidValue);
  fill(stream, data.begin(), 5);
  EXPECT_EQ(data.values(stream), std::vector<float>(kCount, 5));
}

TEST(Streams, what_is_no_device_memory_is_not_copied_to) {
  std::vector<float> host(4), other(4);
  DeviceArray data(4);
  const auto copy = [&](void* to, const void* from, std::size_t floats, cudaMemcpyKind kind) {
    const cudaError_t error = cudaMemcpy(to, from, floats * sizeof(float), kind);
    EXPECT_EQ(cudaGetLastError(), error);
    return error;
  };
  EXPECT_EQ(copy(data.begin(), host.data(), 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(copy(data.begin(), host.data(), 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(data.begin(), nullptr, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(other.data(), host.data(), 4, cudaMemcpyDefault), cudaSuccess);
}

TEST(Streams, more_memory_than_there_is_is_refused_and_the_rest_stays_usable) {
  std::size_t available = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&available, &total), cudaSuccess);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, total + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 1000), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST(Streams, memory_comes_and_goes_in_the_order_of_a_stream) {
  TestStream stream;
  Pinned result(kCount);
  void* memory = nullptr;
  Stop stop(stream);
  ASSERT_EQ(cudaMallocAsync(&memory, kCount * sizeof(float), stream), cudaSuccess);
  fill(stream, static_cast<float*>(memory), 7);
  cudaMemcpyAsync(result.begin(), memory, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(cudaFreeAsync(memory, stream), cudaSuccess);
  stop.end();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(result.values(), std::vector<float>(kCount, 7));
}

}  // namespace
}  // namespace omni
