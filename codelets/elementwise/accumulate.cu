// This file computes dst += sources on a GPU.
#include "codelets/elementwise/accumulate.hpp"

#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

template <class T>
struct Sum {
  T *src, *dst;
  bool clear;

  template <int lanes>
  __device__ void at(std::int64_t first) const {
    const Lanes<lanes> values = load<lanes>(src, first);
    Lanes<lanes> sum = load<lanes>(dst, first);
    for (int i = 0; i < lanes; ++i) sum.at[i] += values.at[i];
    store(dst, first, sum);
    if (clear) store(src, first, Lanes<lanes>{});
  }
};

}  // namespace

void gpu::accumulate(const AccumulateArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    for (int source = 1; source <= args.sources; ++source) {
      const Sum<T> sum{buffers.get<T>(source), buffers.get<T>(0), args.clear};
      for_each_by_lanes<T>(CudaWorker::current(), args.count, sum, sum.src, sum.dst);
    }
  });
}

}  // namespace omni
