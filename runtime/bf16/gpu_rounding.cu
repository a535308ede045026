// This file converts between floats and bf16 on a GPU.
#include <algorithm>

#include "runtime/bf16/float_copies.hpp"
#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/worker.hpp"

namespace omni {
namespace {

template <class T>
struct alignas(4 * sizeof(T)) Four {
  T at[4];
};

template <bool adds, class From, class To>
__global__ void convert_kernel(std::int64_t fours, std::int64_t count, const From* from, To* to) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = thread; i < fours; i += stride) {
    const auto values = reinterpret_cast<const Four<From>*>(from)[i];
    Four<To> converted{};
    if constexpr (adds) converted = reinterpret_cast<Four<To>*>(to)[i];
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float value = values.at[lane];
      converted.at[lane] = adds ? converted.at[lane] + value : value;
    }
    reinterpret_cast<Four<To>*>(to)[i] = converted;
  }
  for (std::int64_t i = 4 * fours + thread; i < count; i += stride)
    to[i] = adds ? static_cast<float>(to[i]) + from[i] : static_cast<float>(from[i]);
}

template <bool adds = false, class From, class To>
void convert(const CudaWorker& worker, std::int64_t count, const From* from, To* to) {
  if (count <= 0) return;
  constexpr std::int64_t kThreads = 256, kBlocksPerMultiprocessor = 8;
  const auto begins_a_four = [](const auto* data) {
    return reinterpret_cast<std::uintptr_t>(data) % sizeof(Four<std::decay_t<decltype(*data)>>) ==
           0;
  };
  const std::int64_t fours = begins_a_four(from) && begins_a_four(to) ? count / 4 : 0;
  const std::int64_t wanted = (std::max(fours, count - 4 * fours) + kThreads - 1) / kThreads;
  const auto blocks =
      static_cast<unsigned>(std::min(wanted, kBlocksPerMultiprocessor * worker.multiprocessors()));
  launch(convert_kernel<adds, From, To>, dim3(blocks), dim3(kThreads), 0, worker.stream(), fours,
         count, from, to);
}

float* memory(std::size_t count, DeviceContext&) {
  return static_cast<float*>(CudaWorker::current().copies(count * sizeof(float)));
}

}  // namespace

void gpu::round(CudaWorker& worker, std::int64_t count, const float* from, Bf16* to) {
  convert(worker, count, from, to);
}

void gpu::widen(CudaWorker& worker, std::int64_t count, const Bf16* from, float* to, bool adds) {
  adds ? convert<true>(worker, count, from, to) : convert(worker, count, from, to);
}

const FloatCopying kCopyOnGpu{
    memory,
    [](std::size_t count, const Bf16* from, float* to) {
      gpu::widen(CudaWorker::current(), static_cast<std::int64_t>(count), from, to);
    },
    [](std::size_t count, const float* from, Bf16* to) {
      gpu::round(CudaWorker::current(), static_cast<std::int64_t>(count), from, to);
    }};

}  // namespace omni
