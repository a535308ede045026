#include "runtime/data/images/unpack.hpp"

#include <algorithm>

#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/worker.hpp"

namespace omni {
namespace {

template <class T>
__global__ void unpack(std::int64_t count, const std::uint8_t* pixels, T* dst) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    dst[i] = static_cast<float>(pixels[i]) / 255.0f;
}

}  // namespace

void gpu::unpack_batch(const UnpackArgs& args, const Buffers& buffers, DeviceContext&) {
  constexpr int kThreads = 256, kBlocksPerMultiprocessor = 8;
  CudaWorker& worker = CudaWorker::current();
  with_values(buffers, [&]<class T>(T) {
    T* dst = buffers.get<T>(0);
    std::size_t part = 1;
    for (int first = 0; first < args.images; first += args.images_per_part, ++part) {
      const std::int64_t values =
          std::min(args.images_per_part, args.images - first) * args.image_values;
      const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(
          (values + kThreads - 1) / kThreads,
          std::int64_t{worker.multiprocessors()} * kBlocksPerMultiprocessor));
      launch(unpack<T>, dim3(blocks), dim3(kThreads), 0, worker.stream(), values,
             buffers.get<const std::uint8_t>(part), dst);
      dst += values;
    }
  });
}

}  // namespace omni
