// This file copies a range of channels on a GPU.
#include "codelets/spatial/copy_channels.hpp"

#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

template <int lanes, class T>
struct Copy {
  struct Column {
    Copy copy;
    int k;
    __device__ void operator()(std::int64_t row) const {
      store(copy.dst, row * copy.dst_c + k, load<lanes>(copy.src, row * copy.src_c + k));
    }
  };

  const T* src;
  T* dst;
  int src_c, dst_c;
  __device__ Column operator()(int column) const { return {*this, column * lanes}; }
};

}  // namespace

void gpu::copy_channels(const CopyChannelsArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    if (args.pads)
      check(cudaMemsetAsync(buffers.get<T>(1), 0, sizeof(T) * args.rows * args.dst_c,
                            CudaWorker::current().stream()),
            "clearing a gradient");
    const T* src = buffers.get<T>(0) + args.src_offset;
    T* dst = buffers.get<T>(1) + args.dst_offset;
    constexpr int kLanes = kMostLanes<T>;
    const bool divide =
        args.src_c % kLanes == 0 && args.dst_c % kLanes == 0 && divides(kLanes, args.c, src, dst);
    with_lanes<T>(divide, [&]<class N>(N lanes) {
      for_each_column(CudaWorker::current(), args.rows, args.c / lanes,
                      Copy<N::value, T>{src, dst, args.src_c, args.dst_c});
    });
  });
}

}  // namespace omni
