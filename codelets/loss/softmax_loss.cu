// Softmax and cross-entropy on a GPU: a block per distribution, a block per image.
#include "codelets/loss/softmax_loss.hpp"

#include "codelets/loss/label_metrics.cuh"

namespace omni {
namespace {

__global__ void softmax_kernel(int size, float sharpness, const float* src, float* dst) {
  const std::int64_t first = std::int64_t{blockIdx.x} * size;
  const float* x = src + first;
  float* p = dst + first;
  const int thread = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float top = x[0], sum = 0;
  for (int i = thread; i < size; i += step) top = Greater{}(x[i], top);
  top = reduce_block(top, Greater{});
  for (int i = thread; i < size; i += step) {
    p[i] = std::exp((x[i] - top) * sharpness);
    sum += p[i];
  }
  const float share = 1 / reduce_block(sum, Plus{});
  for (int i = thread; i < size; i += step) p[i] *= share;
}

struct CrossEntropyRow {
  int inputs, size;  // of the image, of one group
  float temperature, sharpness;
  Truth truth;
  const float *logits, *probabilities;

  __device__ ImageLoss operator()(int image, int label, float* d) const {
    const float* x = logits + std::int64_t{image} * inputs;
    const float* p = probabilities + std::int64_t{image} * inputs;
    const int first = label / size * size, last = first + size;  // the label's group
    const int thread = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
    const auto own = static_cast<double>(x[label]);
    float top = x[label], rest = 0;
    for (int i = first + thread; i < last; i += step) top = Greater{}(x[i], top);
    top = reduce_block(top, Greater{});
    double others_below = 0;  // the label
    for (int i = first + thread; i < last; i += step) {
      if (i != label) rest += std::exp((x[i] - top) * sharpness);
      others_below += own - static_cast<double>(x[i]);
    }
    const LabelOdds odds{.own = static_cast<double>(std::exp((x[label] - top) * sharpness)),
                         .rest = static_cast<double>(reduce_block(rest, Plus{})),
                         .below = (top - own) / temperature};
    double loss = odds.loss();
    if (truth.other > 0)
      loss += truth.other * reduce_block(others_below, Plus{}) / static_cast<double>(temperature);
    const float error = static_cast<float>(odds.error(truth.label));
    if (d != nullptr)
      for (int i = thread; i < inputs; i += step) {
        const float here = i == label ? error : p[i] - static_cast<float>(truth.other);
        d[i] = i >= first && i < last ? here * sharpness : 0.0f;
      }
    return {loss, block_label_rank(p, inputs, label), true};
  }
};

}  // namespace

void gpu::softmax_forward(const SoftmaxArgs& args, const Buffers& buffers, DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  const int size = args.inputs / args.groups;
  const std::int64_t distributions = std::int64_t{args.n} * args.groups;
  launch(softmax_kernel, dim3(static_cast<unsigned>(distributions)), threads_for_row(size), 0,
         worker.stream(), size, 1 / args.temperature, buffers.get(0), buffers.get(1));
}

void gpu::cross_entropy(const CrossEntropyArgs& args, const Buffers& buffers, DeviceContext&) {
  label_losses(
      args.n, args.inputs, buffers.get<std::int32_t>(2),
      CrossEntropyRow{args.inputs, args.inputs / args.groups, args.temperature,
                      1 / args.temperature, smoothed_truth(args), buffers.get(0), buffers.get(1)},
      buffers.get(3), args.gradient ? buffers.get(4) : nullptr);
}

}  // namespace omni
