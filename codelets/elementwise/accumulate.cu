// dst += src on a GPU.
#include "codelets/elementwise/accumulate.hpp"

#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

}  // namespace

void gpu::accumulate(const AccumulateArgs& args, const Buffers& buffers, DeviceContext&) {
  map_elements(CudaWorker::current(), args.count, Sum{}, buffers.get(1), buffers.get(1),
               buffers.get(0));
}

}  // namespace omni
