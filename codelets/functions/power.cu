// This file computes powers on a GPU.
#include "codelets/functions/power.hpp"

#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

template <class F>
struct PowerGradient {
  F f;
  __device__ float operator()(float diff, float x) const { return diff * f.gradient(x); }
};

}  // namespace

void gpu::power_forward(const PowerArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    with_power_of(args, [&](auto f) {
      map_elements(CudaWorker::current(), args.count, f, buffers.get<T>(1), buffers.get<T>(0));
    });
  });
}

void gpu::power_backward(const PowerArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    with_power_of(args, [&]<class F>(F f) {
      map_elements(CudaWorker::current(), args.count, PowerGradient<F>{f}, buffers.get<T>(2),
                   buffers.get<T>(1), buffers.get<T>(0));
    });
  });
}

}  // namespace omni
