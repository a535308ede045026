// The metrics of a slice on a GPU, from the losses of its images.
#include "codelets/loss/label_metrics.cuh"

namespace omni {
namespace {

__global__ void add_losses_kernel(int images, const ImageLoss* losses, float* metrics) {
  LabelMetrics sums;
  for (int image = static_cast<int>(threadIdx.x); image < images;
       image += static_cast<int>(blockDim.x)) {
    sums.loss += losses[image].loss;
    if (losses[image].counted) sums.count(losses[image].rank);
  }
  sums.loss = reduce_block(sums.loss, Plus{});
  sums.top1 = reduce_block(sums.top1, Plus{});
  sums.top5 = reduce_block(sums.top5, Plus{});
  sums.images = reduce_block(sums.images, Plus{});
  if (threadIdx.x == 0) sums.store(metrics);
}

}  // namespace

void add_losses(CudaWorker& worker, int images, const ImageLoss* losses, float* metrics) {
  launch(add_losses_kernel, dim3(1), threads_for_row(images), 0, worker.stream(), images, losses,
         metrics);
}

}  // namespace omni
