// Space to depth and back on a GPU. The `stride` neighbours in a row of the wide side are one run
// of values on both sides.
#include "codelets/spatial/reorg.hpp"

#include "codelets/cuda/images.cuh"
#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

template <int lanes>
struct Move {
  int h, runs, stride;  // rows of the wide side, runs in one
  int run;              // values
  bool to_depth;
  const float* src;
  float* dst;

  __device__ void operator()(int image, int y, int x, int column) const {
    // No row of blocks crosses images, because h is a multiple of stride.
    const std::int64_t row = std::int64_t{image} * h + y;
    const std::int64_t in_wide = (row * runs + x) * run + column * lanes;
    const std::int64_t block = row / stride * runs + x;
    const std::int64_t in_deep = (block * stride + y % stride) * run + column * lanes;
    store(dst, to_depth ? in_deep : in_wide, load<lanes>(src, to_depth ? in_wide : in_deep));
  }
};

}  // namespace

void gpu::reorg(const ReorgArgs& args, const Buffers& buffers, DeviceContext&) {
  const int runs = args.wide.w / args.stride, run = args.stride * args.wide.c;
  with_lanes<float>(run % 4 == 0, [&]<class N>(N lanes) {
    for_each_position(CudaWorker::current(), args.n, {args.wide.h, runs, run / lanes},
                      Move<N::value>{args.wide.h, runs, args.stride, run, args.to_depth,
                                     buffers.get(0), buffers.get(1)});
  });
}

}  // namespace omni
