// This file turns images into planes on a GPU, and back.
#include "codelets/spatial/planes.hpp"

#include "codelets/cuda/elements.cuh"

namespace omni {
namespace {

__global__ void planes_kernel(PlanesArgs args, const float* src, float* dst) {
  const std::int64_t count = std::int64_t{args.n} * args.pixels * args.c;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t last = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; last < count;
       last += step) {
    const std::int64_t k = last % args.c, pixel = last / args.c % args.pixels;
    const std::int64_t image = last / args.c / args.pixels;
    const std::int64_t first = (image * args.c + k) * args.pixels + pixel;
    if (args.to_planes)
      dst[first] = src[last];
    else
      dst[last] = src[first];
  }
}

}  // namespace

void gpu::planes(const PlanesArgs& args, const Buffers& buffers, DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  launch(planes_kernel, blocks_for(worker, std::int64_t{args.n} * args.pixels * args.c),
         dim3(kThreads), 0, worker.stream(), args, buffers.get(0), buffers.get(1));
}

}  // namespace omni
