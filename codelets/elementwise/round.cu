// Rounding to bf16 on a GPU.
#include "codelets/elementwise/round.hpp"

#include "runtime/bf16/gpu_rounding.hpp"

namespace omni {

void gpu::round_values(const RoundArgs& args, const Buffers& buffers, DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  if (buffers.in_bf16()) return round(worker, args.count, buffers.get(0), buffers.get<Bf16>(1));
  check(cudaMemcpyAsync(buffers.get(1), buffers.get(0),
                        sizeof(float) * static_cast<std::size_t>(args.count),
                        cudaMemcpyDeviceToDevice, worker.stream()),
        "copying values");
}

}  // namespace omni
