// The losses of images against one label each on a GPU: a block per image, then one that adds up.
#pragma once

#include <limits>

#include "codelets/cuda/blocks.cuh"
#include "codelets/cuda/elements.cuh"
#include "codelets/loss/label_metrics.hpp"

namespace omni {

struct ImageLoss {
  double loss;
  int rank;
  bool counted;
};

// A power of two of threads for a row of so many values, in whole warps.
inline dim3 threads_for_row(int values) {
  unsigned threads = 32;
  while (threads < kThreads && threads < static_cast<unsigned>(values)) threads *= 2;
  return dim3(threads);
}

// label_rank() by all threads of a block.
inline __device__ int block_label_rank(const float* values, int classes, int label) {
  const float own = values[label];
  int before = 0;
  for (int i = static_cast<int>(threadIdx.x); i < classes; i += static_cast<int>(blockDim.x))
    before += i != label && comes_before(values[i], own, i < label);
  return reduce_block(before, Plus{});
}

// Nobody can be told of a label out of range here. Its loss is no number, which ends the run.
template <class Row>
__global__ void image_losses_kernel(const std::int32_t* labels, int inputs, Row row, float* diff,
                                    ImageLoss* losses) {
  const int image = static_cast<int>(blockIdx.x);
  const int label = labels[image];
  float* d = diff == nullptr ? nullptr : diff + std::int64_t{image} * inputs;
  ImageLoss result{0, 0, false};
  if (label >= 0 && label < inputs) {
    result = row(image, label, d);
  } else {
    if (d != nullptr)
      for (int i = static_cast<int>(threadIdx.x); i < inputs; i += static_cast<int>(blockDim.x))
        d[i] = 0;
    if (label != kNoLabel)
      result = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<int>::max(), true};
  }
  if (threadIdx.x == 0) losses[image] = result;
}

// Stores the metrics of so many images.
void add_losses(CudaWorker& worker, int images, const ImageLoss* losses, float* metrics);

// row(image, label, d) is called by a block and writes the image's gradient to d, unless that is
// null. The ImageLoss that its first thread returns is taken.
template <class Row>
void label_losses(int images, int inputs, const std::int32_t* labels, Row row, float* metrics,
                  float* diff) {
  CudaWorker& worker = CudaWorker::current();
  auto* losses = static_cast<ImageLoss*>(worker.workspace(images * sizeof(ImageLoss)));
  launch(image_losses_kernel<Row>, dim3(static_cast<unsigned>(images)), threads_for_row(inputs), 0,
         worker.stream(), labels, inputs, row, diff, losses);
  add_losses(worker, images, losses, metrics);
}

}  // namespace omni
