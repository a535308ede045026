// This file computes activations on a GPU.
#include "codelets/elementwise/activation.hpp"

#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

template <class F>
struct Backward {
  F f;
  __device__ float operator()(float diff, float value) const { return diff * f.gradient(value); }
};

}  // namespace

void gpu::activation_forward(const ActivationArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    with_activation_of<T>(args.activation, [&](auto f) {
      map_elements(CudaWorker::current(), args.count, f, buffers.get<T>(1), buffers.get<T>(0));
    });
  });
}

void gpu::activation_backward(const ActivationArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    with_activation_of<T>(args.activation, [&]<class F>(F f) {
      map_elements(CudaWorker::current(), args.count, Backward<F>{f}, buffers.get<T>(1),
                   buffers.get<T>(1), buffers.get<T>(0));
    });
  });
}

}  // namespace omni
