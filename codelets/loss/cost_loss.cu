// The distance from the one-hot label on a GPU: a block per image.
#include "codelets/loss/cost_loss.hpp"

#include "codelets/loss/label_metrics.cuh"

namespace omni {
namespace {

template <class F>
struct DistanceRow {
  F f;
  int inputs;
  float scale;
  const float* src;

  __device__ ImageLoss operator()(int image, int label, float* d) const {
    const float* x = src + std::int64_t{image} * inputs;
    double sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < inputs; i += static_cast<int>(blockDim.x)) {
      const float error = x[i] - (i == label ? 1.0f : 0.0f);
      sum += static_cast<double>(f(error));
      if (d != nullptr) d[i] = scale * f.gradient(error);
    }
    const double loss = static_cast<double>(scale) * reduce_block(sum, Plus{});
    return {loss, block_label_rank(x, inputs, label), true};
  }
};

}  // namespace

void gpu::cost_loss(const CostLossArgs& args, const Buffers& buffers, DeviceContext&) {
  with_distance(args.distance, [&]<class F>(F f) {
    label_losses(args.n, args.inputs, buffers.get<std::int32_t>(1),
                 DistanceRow<F>{f, args.inputs, args.scale, buffers.get(0)}, buffers.get(2),
                 args.gradient ? buffers.get(3) : nullptr);
  });
}

}  // namespace omni
