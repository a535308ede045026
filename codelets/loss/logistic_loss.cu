// Logistic cross-entropy on a GPU: a block per image.
#include "codelets/loss/logistic_loss.hpp"

#include "codelets/loss/label_metrics.cuh"

namespace omni {
namespace {

struct LogisticRow {
  int inputs;
  const float* src;

  __device__ ImageLoss operator()(int image, int label, float* d) const {
    const float* x = src + std::int64_t{image} * inputs;
    double loss = 0;
    for (int i = static_cast<int>(threadIdx.x); i < inputs; i += static_cast<int>(blockDim.x)) {
      loss += static_cast<double>(reference::softplus(i == label ? -x[i] : x[i]));
      if (d != nullptr) d[i] = reference::probability_less_truth(x[i], i == label);
    }
    return {reduce_block(loss, Plus{}), block_label_rank(x, inputs, label), true};
  }
};

}  // namespace

void gpu::logistic_loss(const LogisticLossArgs& args, const Buffers& buffers, DeviceContext&) {
  label_losses(args.n, args.inputs, buffers.get<std::int32_t>(1),
               LogisticRow{args.inputs, buffers.get(0)}, buffers.get(2),
               args.gradient ? buffers.get(3) : nullptr);
}

}  // namespace omni
