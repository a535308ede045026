// The gradient of a connected layer and its update on a GPU. That of the weights passes through the
// worker's workspace, that of a bias through a register.
#include "codelets/dense/connected_update.hpp"

#include "codelets/cuda/columns.cuh"
#include "codelets/cuda/gemm.cuh"
#include "codelets/elementwise/exchange_steps.hpp"

namespace omni {
namespace {

template <class Step>
struct UpdateBias {
  Step step;
  float *master, *velocity;
  float* mean_square;  // null: not Adam
  __device__ void operator()(int column, const std::array<float, 1>& sum) const {
    float gradient = sum[0];
    if constexpr (std::is_same_v<Step, AdamStep>)
      step(master[column], gradient, velocity[column], mean_square[column]);
    else
      step(master[column], gradient, velocity[column]);
  }
};

}  // namespace

void gpu::connected_backward_update(const ConnectedUpdateArgs& args, const Buffers& buffers,
                                    DeviceContext&) {
  const int n = args.shape.n, inputs = args.shape.inputs, outputs = args.shape.outputs;
  CudaWorker& worker = CudaWorker::current();
  const bool adam = args.weights.adam;
  with_step(args.bias, [&]<class Step>(const Step& step) {
    sum_columns<1>(
        worker, n, outputs, MatrixValue{buffers.get(1), outputs},
        UpdateBias<Step>{step, buffers.get(4), buffers.get(5), adam ? buffers.get(7) : nullptr});
  });
  // The sums are done with the workspace before what comes after them in the stream.
  auto* gradient = static_cast<float*>(
      worker.workspace(static_cast<std::size_t>(args.weights.count) * sizeof(float)));
  gemm(worker, outputs, inputs, n, {buffers.get(1), outputs, true}, {buffers.get(0), inputs}, 0.0f,
       gradient, inputs);
  update_values(worker, args.weights, buffers.get(2), gradient, buffers.get(3), nullptr,
                adam ? buffers.get(6) : nullptr);
}

}  // namespace omni
