// This file clips gradients on a GPU. A single block adds up the squares of a source, so that their
// order is fixed.
#include "codelets/normalise/gradient_clip.hpp"

#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

constexpr unsigned kAdding = 1024;  // threads

__global__ void add_squares_kernel(std::int64_t count, const float* src, bool squares, bool adds,
                                   float* sum) {
  double own = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x)
    own += squares ? double{src[i]} * double{src[i]} : double{src[i]};
  const double all = reduce_block(own, Plus());
  if (threadIdx.x == 0) *sum = static_cast<float>(adds ? double{*sum} + all : all);
}

struct Scale {
  const float* square;
  float limit;
  float* values;

  template <int lanes>
  __device__ void at(std::int64_t first) const {
    const float norm = sqrtf(*square);
    if (!(norm > limit)) return;
    Lanes<lanes> scaled = load<lanes>(values, first);
    for (int i = 0; i < lanes; ++i) scaled.at[i] *= limit / norm;
    store(values, first, scaled);
  }
};

}  // namespace

void gpu::add_squares(const AddSquaresArgs& args, const Buffers& buffers, DeviceContext&) {
  for (std::size_t i = 0; i < args.sources; ++i)
    launch(add_squares_kernel, dim3(1), dim3(kAdding), 0, CudaWorker::current().stream(),
           args.counts[i], buffers.get<const float>(1 + i), args.squares, i > 0, buffers.get(0));
}

void gpu::clip(const ClipArgs& args, const Buffers& buffers, DeviceContext&) {
  for (std::size_t i = 0; i < args.gradients; ++i) {
    const Scale scale{buffers.get(0), args.limit, buffers.get(1 + i)};
    for_each_by_lanes<float>(CudaWorker::current(), args.counts[i], scale, scale.values);
  }
}

}  // namespace omni
