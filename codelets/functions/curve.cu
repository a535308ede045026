// This file computes the functions of curve.hpp on a GPU.
#include "codelets/functions/curve.hpp"

#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

template <class F>
struct CurveGradient {
  F f;
  __device__ float operator()(float diff, float x) const { return diff * f.gradient(x); }
};

}  // namespace

void gpu::curve_forward(const CurveArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    with_curve(args, [&](auto f) {
      map_elements(CudaWorker::current(), args.count, f, buffers.get<T>(1), buffers.get<T>(0));
    });
  });
}

void gpu::curve_backward(const CurveArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    with_curve(args, [&]<class F>(F f) {
      map_elements(CudaWorker::current(), args.count, CurveGradient<F>{f}, buffers.get<T>(2),
                   buffers.get<T>(1), buffers.get<T>(0));
    });
  });
}

}  // namespace omni
