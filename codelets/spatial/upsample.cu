// Nearest-neighbour enlargement on a GPU; backward gathers.
#include "codelets/spatial/upsample.hpp"

#include "codelets/cuda/images.cuh"
#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

template <int lanes>
struct UpsampleForward {
  UpsampleArgs args;
  const float* src;
  float* dst;

  __device__ void operator()(int image, int y, int x, int column) const {
    const int c = args.src.c, k = column * lanes;
    const std::int64_t row = std::int64_t{image} * args.src.h + y / args.stride;
    Lanes<lanes> value = load<lanes>(src, (row * args.src.w + x / args.stride) * c + k);
    for (int i = 0; i < lanes; ++i) value.at[i] *= args.scale;
    const std::int64_t to = std::int64_t{image} * args.src.h * args.stride + y;
    store(dst, (to * args.src.w * args.stride + x) * c + k, value);
  }
};

template <int lanes>
struct UpsampleBackward {
  UpsampleArgs args;
  const float* diff_dst;
  float* diff_src;

  __device__ void operator()(int image, int y, int x, int column) const {
    const int c = args.src.c, k = column * lanes;
    const std::int64_t row = std::int64_t{image} * args.src.h + y;
    Lanes<lanes> sum{};
    for (int dy = 0; dy < args.stride; ++dy)
      for (int dx = 0; dx < args.stride; ++dx) {
        const std::int64_t from = (row * args.stride + dy) * args.src.w * args.stride;
        const auto diff = load<lanes>(diff_dst, (from + x * args.stride + dx) * c + k);
        for (int i = 0; i < lanes; ++i) sum.at[i] += args.scale * diff.at[i];
      }
    store(diff_src, (row * args.src.w + x) * c + k, sum);
  }
};

}  // namespace

void gpu::upsample_forward(const UpsampleArgs& args, const Buffers& buffers, DeviceContext&) {
  with_lanes<float>(args.src.c % 4 == 0, [&]<class N>(N lanes) {
    for_each_position(CudaWorker::current(), args.n,
                      {args.src.h * args.stride, args.src.w * args.stride, args.src.c / lanes},
                      UpsampleForward<N::value>{args, buffers.get(0), buffers.get(1)});
  });
}

void gpu::upsample_backward(const UpsampleArgs& args, const Buffers& buffers, DeviceContext&) {
  with_lanes<float>(args.src.c % 4 == 0, [&]<class N>(N lanes) {
    for_each_position(CudaWorker::current(), args.n, {args.src.h, args.src.w, args.src.c / lanes},
                      UpsampleBackward<N::value>{args, buffers.get(0), buffers.get(1)});
  });
}

}  // namespace omni
