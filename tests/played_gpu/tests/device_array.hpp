// Tests of a device use these classes: memory on the device, pinned memory, a stream, and a way to
// stop a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "runtime/cuda/check.hpp"

namespace omni::test {

class TestStream {
 public:
  explicit TestStream(unsigned flags = cudaStreamNonBlocking) {
    check(cudaStreamCreateWithFlags(&stream_, flags), "making a stream");
  }
  ~TestStream() { cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// While a Stop lives, no later work in the stream is done.
class Stop {
 public:
  explicit Stop(cudaStream_t stream) {
    check(cudaLaunchHostFunc(
              stream, [](void* ended) { static_cast<std::atomic<bool>*>(ended)->wait(false); },
              &ended_),
          "stopping a stream");
    stream_ = stream;
  }
  ~Stop() { end(); }
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;
  // Returns after the stream has gone on, because the stream uses members of this object.
  void end() {
    if (ended_.exchange(true)) return;
    ended_.notify_all();
    cudaStreamSynchronize(stream_);
  }

 private:
  std::atomic<bool> ended_ = false;
  cudaStream_t stream_;
};

class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    check(cudaMalloc(reinterpret_cast<void**>(&begin_), bytes()), "allocating");
  }
  explicit DeviceArray(const std::vector<float>& values) : DeviceArray(values.size()) {
    check(cudaMemcpy(begin_, values.data(), bytes(), cudaMemcpyHostToDevice), "copying");
    check(cudaDeviceSynchronize(), "copying");
  }
  ~DeviceArray() { cudaFree(begin_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  float* begin() const { return begin_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(float); }
  // Returns the values after all work that is in the stream.
  std::vector<float> values(cudaStream_t stream) const {
    std::vector<float> all(count_);
    check(cudaMemcpyAsync(all.data(), begin_, bytes(), cudaMemcpyDeviceToHost, stream), "copying");
    check(cudaStreamSynchronize(stream), "copying");
    return all;
  }

 private:
  std::size_t count_;
  float* begin_ = nullptr;
};

class Pinned {
 public:
  explicit Pinned(std::size_t count, float value = 0) : count_(count) {
    check(cudaMallocHost(reinterpret_cast<void**>(&begin_), count * sizeof(float)), "allocating");
    fill(value);
  }
  ~Pinned() { cudaFreeHost(begin_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  float* begin() const { return begin_; }
  void fill(float value) { std::fill_n(begin_, count_, value); }
  std::vector<float> values() const { return {begin_, begin_ + count_}; }

 private:
  std::size_t count_;
  float* begin_ = nullptr;
};

}  // namespace omni::test
