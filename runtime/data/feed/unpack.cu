#include "runtime/data/feed/unpack.hpp"

#include <algorithm>

#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/worker.hpp"

namespace omni {
namespace {

// A thread reads this many bytes before it writes, since with only one read under way memory would
// be idle. It reads single bytes, since an image may begin at any address.
constexpr int kBytesOfThread = 8;
constexpr int kThreadsOfBlock = 256, kBytesOfBlock = kThreadsOfBlock * kBytesOfThread;

template <class T>
__global__ void unpack(std::int64_t count, const std::uint8_t* pixels, T* dst) {
  for (std::int64_t first = std::int64_t{blockIdx.x} * kBytesOfBlock + threadIdx.x; first < count;
       first += std::int64_t{gridDim.x} * kBytesOfBlock) {
    const auto left = static_cast<int>(std::min<std::int64_t>(count - first, kBytesOfBlock));
    std::uint8_t read[kBytesOfThread];
#pragma unroll
    for (int i = 0; i < kBytesOfThread; ++i)
      read[i] = i * kThreadsOfBlock < left ? pixels[first + i * kThreadsOfBlock] : 0;
#pragma unroll
    for (int i = 0; i < kBytesOfThread; ++i)
      if (i * kThreadsOfBlock < left)
        dst[first + i * kThreadsOfBlock] = static_cast<float>(read[i]) / 255.0f;
  }
}

}  // namespace

void gpu::unpack_batch(const UnpackArgs& args, const Buffers& buffers, DeviceContext&) {
  constexpr int kBlocksPerMultiprocessor = 8;
  CudaWorker& worker = CudaWorker::current();
  with_values(buffers, [&]<class T>(T) {
    T* dst = buffers.get<T>(0);
    args.for_each_part([&](std::size_t buffer, std::int64_t first, std::int64_t values) {
      const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(
          (values + kBytesOfBlock - 1) / kBytesOfBlock,
          std::int64_t{worker.multiprocessors()} * kBlocksPerMultiprocessor));
      launch(unpack<T>, dim3(blocks), dim3(kThreadsOfBlock), 0, worker.stream(), values,
             buffers.get<const std::uint8_t>(buffer) + first, dst);
      dst += values;
    });
  });
}

}  // namespace omni
