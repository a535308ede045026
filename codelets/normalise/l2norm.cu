// This file computes L2 normalisation on a GPU, with a warp per position.
#include "codelets/normalise/l2norm.hpp"

#include "codelets/cuda/elements.cuh"

namespace omni {
namespace {

// Returns the scalar product, added up in double, because backward is a small difference of large
// numbers if one channel dominates.
__device__ double dot(const float* x, const float* y, int count) {
  double sum = 0;
  for (int k = static_cast<int>(threadIdx.x); k < count; k += 32)
    sum += static_cast<double>(x[k]) * static_cast<double>(y[k]);
  return reduce_warp(sum, Plus{});
}

struct L2NormForward {
  int c;
  const float* src;
  float* dst;
  __device__ void operator()(std::int64_t row) const {
    const float* x = src + row * c;
    const auto factor = static_cast<float>(1 / std::sqrt(dot(x, x, c) + kL2NormEpsilon));
    for (int k = static_cast<int>(threadIdx.x); k < c; k += 32) dst[row * c + k] = x[k] * factor;
  }
};

struct L2NormBackward {
  int c;
  const float *src, *diff_dst;
  float* diff_src;
  __device__ void operator()(std::int64_t row) const {
    const float *x = src + row * c, *diff = diff_dst + row * c;
    const double squares = dot(x, x, c) + kL2NormEpsilon;
    const double factor = 1 / std::sqrt(squares), pull = dot(x, diff, c) / squares;
    for (int k = static_cast<int>(threadIdx.x); k < c; k += 32)
      diff_src[row * c + k] = static_cast<float>(
          (static_cast<double>(diff[k]) - static_cast<double>(x[k]) * pull) * factor);
  }
};

template <class Use>
__global__ void warps_kernel(std::int64_t rows, Use use) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.y;
  for (std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; row < rows;
       row += stride)
    use(row);
}

// Calls use(row) for every row in all 32 threads of a warp, which lies along x.
template <class Use>
void for_each_row(std::int64_t rows, Use use) {
  CudaWorker& worker = CudaWorker::current();
  if (rows > 0)
    launch(warps_kernel<Use>, blocks_for(worker, 32 * rows), dim3(32, kThreads / 32), 0,
           worker.stream(), rows, use);
}

}  // namespace

void gpu::l2norm_forward(const L2NormArgs& args, const Buffers& buffers, DeviceContext&) {
  for_each_row(args.rows, L2NormForward{args.c, buffers.get(0), buffers.get(1)});
}

void gpu::l2norm_backward(const L2NormArgs& args, const Buffers& buffers, DeviceContext&) {
  for_each_row(args.rows, L2NormBackward{args.c, buffers.get(0), buffers.get(1), buffers.get(2)});
}

}  // namespace omni
