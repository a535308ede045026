// This file computes the larger of two tensors on a GPU.
#include "codelets/functions/larger.hpp"

#include "codelets/cuda/map.cuh"

namespace omni {

void gpu::larger_forward(const LargerArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    map_elements(CudaWorker::current(), args.count, LargerOf(), buffers.get<T>(2),
                 buffers.get<T>(0), buffers.get<T>(1));
  });
}

void gpu::larger_backward(const LargerArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    map_elements(CudaWorker::current(), args.count, LargerGradient{args.of_first},
                 buffers.get<T>(3), buffers.get<T>(0), buffers.get<T>(1), buffers.get<T>(2));
  });
}

}  // namespace omni
