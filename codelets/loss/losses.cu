// This file computes the losses on a GPU. There is a block per image, then one block adds up the
// images.
#include <limits>

#include "codelets/cuda/elements.cuh"
#include "codelets/loss/cost_loss.hpp"
#include "codelets/loss/label_counts.hpp"
#include "codelets/loss/label_metrics.hpp"
#include "codelets/loss/logistic_loss.hpp"
#include "codelets/loss/softmax.hpp"
#include "codelets/loss/target_loss.hpp"

namespace omni {
namespace {

struct ImageLoss {
  double loss;
  int rank;
  bool counted;
};

// Returns the number of threads for a row of `values` values: a power of two, in whole warps.
dim3 threads_for_row(int values) {
  unsigned threads = 32;
  while (threads < kThreads && threads < static_cast<unsigned>(values)) threads *= 2;
  return dim3(threads);
}

// Computes label_rank() with all threads of a block.
__device__ int block_label_rank(const float* values, int classes, int label) {
  const float own = values[label];
  int before = 0;
  for (int i = static_cast<int>(threadIdx.x); i < classes; i += static_cast<int>(blockDim.x))
    before += i != label && comes_before(values[i], own, i < label);
  return reduce_block(before, Plus{});
}

// Computes the loss of each image. A kernel cannot report a label out of range, so the loss becomes
// NaN, which ends the run.
template <class Row>
__global__ void image_losses_kernel(const std::int32_t* labels, IgnoredLabels ignored, int inputs,
                                    float weight, Row row, float* diff, ImageLoss* losses) {
  const int image = static_cast<int>(blockIdx.x);
  const int label = labels[image];
  float* d = diff == nullptr ? nullptr : diff + std::int64_t{image} * inputs;
  ImageLoss result{0, 0, false};
  if (label >= 0 && label < inputs && !ignored.by_both(label)) {
    result = row(image, label, d);
    result.loss *= static_cast<double>(weight);
    if (d != nullptr && weight != 1)  // each thread has written these values
      for (int i = static_cast<int>(threadIdx.x); i < inputs; i += static_cast<int>(blockDim.x))
        d[i] *= weight;
  } else {
    if (d != nullptr)
      for (int i = static_cast<int>(threadIdx.x); i < inputs; i += static_cast<int>(blockDim.x))
        d[i] = 0;
    if (label != kNoLabel)
      result = {ignored.by_both(label) ? 0 : std::numeric_limits<double>::quiet_NaN(), kNotJudged,
                true};
  }
  if (threadIdx.x == 0) losses[image] = result;
}

// Adds up the losses of `images` images, and stores the metrics.
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

// Computes a loss. Each block calls row(image, label, d), which writes the image's gradient to d
// unless d is null. The ImageLoss that the block's first thread returns counts.
template <class Row>
void label_losses(int images, int inputs, float weight, const std::int32_t* labels, Row row,
                  float* metrics, float* diff, IgnoredLabels ignored = {}) {
  CudaWorker& worker = CudaWorker::current();
  auto* losses = static_cast<ImageLoss*>(worker.workspace(images * sizeof(ImageLoss)));
  launch(image_losses_kernel<Row>, dim3(static_cast<unsigned>(images)), threads_for_row(inputs), 0,
         worker.stream(), labels, ignored, inputs, weight, row, diff, losses);
  launch(add_losses_kernel, dim3(1), threads_for_row(images), 0, worker.stream(), images, losses,
         metrics);
}

// The following kernels compute softmax, with a block per distribution, and cross-entropy.

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
  int inputs, size;  // values of the image, and of one group
  float temperature, sharpness;
  Truth truth;
  IgnoredLabels ignored;
  const float *logits, *probabilities;

  __device__ ImageLoss operator()(int image, int label, float* d) const {
    const float* x = logits + std::int64_t{image} * inputs;
    const float* p = probabilities + std::int64_t{image} * inputs;
    const int first = label / size * size,
              last = first + size;  // the label's group
    const int rank = label == ignored.in_accuracy ? kNotJudged : block_label_rank(p, inputs, label);
    const int thread = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
    if (label == ignored.in_loss) {
      for (int i = thread; d != nullptr && i < inputs; i += step) d[i] = 0;
      return {0, rank, true};
    }
    const auto own = static_cast<double>(x[label]);
    float top = x[label], rest = 0;
    for (int i = first + thread; i < last; i += step) top = Greater{}(x[i], top);
    top = reduce_block(top, Greater{});
    double others_below = 0;  // sum over the group of log p(label) - log p(class)
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
    return {loss, rank, true};
  }
};

// The following type computes logistic cross-entropy.

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

// The following type computes the distance from the one-hot label.

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
      const float truth = i == label ? 1.0f : 0.0f;
      sum += static_cast<double>(f(x[i], truth));
      if (d != nullptr) d[i] = scale * f.gradient(x[i], truth);
    }
    const double loss = static_cast<double>(scale) * reduce_block(sum, Plus{});
    return {loss, block_label_rank(x, inputs, label), true};
  }
};

// The following kernels add a loss, count labels with one block, and scale what a loss wrote.

__global__ void add_loss_kernel(int place, const float* auxiliary, float* metrics) {
  metrics[0] += auxiliary[0];
  metrics[place] = auxiliary[0];
}

__global__ void count_labels_kernel(LabelCountArgs args, const std::int32_t* labels,
                                    float* counts) {
  int images = 0, labelled = 0, judged = 0;
  for (int i = static_cast<int>(threadIdx.x); i < args.n; i += static_cast<int>(blockDim.x)) {
    const bool here = labels[i] != kNoLabel;
    images += here;
    labelled += here && labels[i] != args.ignored.in_loss;
    judged += here && labels[i] != args.ignored.in_accuracy;
  }
  images = reduce_block(images, Plus{});
  labelled = reduce_block(labelled, Plus{});
  judged = reduce_block(judged, Plus{});
  if (threadIdx.x > 0) return;
  counts[0] = (args.first ? 0 : counts[0]) + static_cast<float>(images);
  counts[1] = (args.first ? 0 : counts[1]) + static_cast<float>(labelled);
  counts[2] = (args.first ? 0 : counts[2]) + static_cast<float>(judged);
}

__global__ void scale_loss_kernel(LossMeanArgs args, const float* counts, float* metrics,
                                  float* diff) {
  const LabelCounts of{counts[0], counts[1], counts[2]};
  const float loss = args.of_labelled ? of.factor(of.labelled) : 1, right = of.factor(of.judged);
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::int64_t i = first; args.gradient && i < std::int64_t{args.n} * args.inputs;
       i += std::int64_t{gridDim.x} * blockDim.x)
    diff[i] *= loss;
  if (first > 0) return;
  metrics[0] *= loss;
  metrics[1] *= right;
  metrics[2] *= right;
}

// Computes the loss of each image against its target.
template <class F>
__global__ void target_losses_kernel(TargetLossArgs args, const float* src,
                                     const std::int32_t* labels, TargetBuffers<float> buffers,
                                     ImageLoss* losses) {
  const int image = static_cast<int>(blockIdx.x);
  const std::int64_t first = std::int64_t{image} * args.inputs;
  const bool is_there = labels[image] != kNoLabel;
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < args.inputs; i += static_cast<int>(blockDim.x)) {
    const std::int64_t of_target = first + args.target_of(i);
    const float x = src[first + i],
                t = args.of_labels ? static_cast<float>(labels[image]) : buffers.target[of_target];
    if (is_there) sum += static_cast<double>(args.weight * F::loss(x, t));
    if (buffers.diff != nullptr)
      buffers.diff[first + i] = is_there ? args.weight * F::gradient(x, t) : 0.0f;
    if (buffers.diff_target != nullptr)
      buffers.diff_target[of_target] = is_there ? args.weight * F::target_gradient(x, t) : 0.0f;
  }
  sum = reduce_block(sum, Plus{});
  if (threadIdx.x == 0) losses[image] = {sum, std::numeric_limits<int>::max(), is_there};
}

}  // namespace

void gpu::add_loss(const AddedLossArgs& args, const Buffers& buffers, DeviceContext&) {
  launch(add_loss_kernel, dim3(1), dim3(1), 0, CudaWorker::current().stream(), args.place,
         buffers.get(0), buffers.get(1));
}

void gpu::count_labels(const LabelCountArgs& args, const Buffers& buffers, DeviceContext&) {
  launch(count_labels_kernel, dim3(1), threads_for_row(args.n), 0, CudaWorker::current().stream(),
         args, buffers.get<std::int32_t>(0), buffers.get(1));
}

void gpu::scale_loss(const LossMeanArgs& args, const Buffers& buffers, DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  launch(scale_loss_kernel, blocks_for(worker, std::int64_t{args.n} * args.inputs), dim3(kThreads),
         0, worker.stream(), args, buffers.get(0), buffers.get(1),
         args.gradient ? buffers.get(2) : nullptr);
}

void gpu::target_loss(const TargetLossArgs& args, const Buffers& buffers, DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  auto* losses = static_cast<ImageLoss*>(worker.workspace(args.n * sizeof(ImageLoss)));
  const auto any = [&](std::size_t number) {
    return number < buffers.count() ? buffers.get(number) : nullptr;
  };
  launch(args.logistic ? target_losses_kernel<LogisticToTarget> : target_losses_kernel<HalfSquare>,
         dim3(static_cast<unsigned>(args.n)), threads_for_row(args.inputs), 0, worker.stream(),
         args, buffers.get(0), buffers.get<std::int32_t>(1),
         TargetBuffers<float>(args, any(3), any(4), any(5)), losses);
  launch(add_losses_kernel, dim3(1), threads_for_row(args.n), 0, worker.stream(), args.n, losses,
         buffers.get(2));
}

void gpu::softmax_forward(const SoftmaxArgs& args, const Buffers& buffers, DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  const int size = args.inputs / args.groups;
  const std::int64_t distributions = std::int64_t{args.n} * args.groups;
  launch(softmax_kernel, dim3(static_cast<unsigned>(distributions)), threads_for_row(size), 0,
         worker.stream(), size, 1 / args.temperature, buffers.get(0), buffers.get(1));
}

void gpu::cross_entropy(const CrossEntropyArgs& args, const Buffers& buffers, DeviceContext&) {
  label_losses(args.n, args.inputs, args.weight, buffers.get<std::int32_t>(2),
               CrossEntropyRow{args.inputs, args.inputs / args.groups, args.temperature,
                               1 / args.temperature, smoothed_truth(args), args.ignored,
                               buffers.get(0), buffers.get(1)},
               buffers.get(3), args.gradient ? buffers.get(4) : nullptr, args.ignored);
}

void gpu::logistic_loss(const LogisticLossArgs& args, const Buffers& buffers, DeviceContext&) {
  label_losses(args.n, args.inputs, args.weight, buffers.get<std::int32_t>(1),
               LogisticRow{args.inputs, buffers.get(0)}, buffers.get(2),
               args.gradient ? buffers.get(3) : nullptr);
}

void gpu::cost_loss(const CostLossArgs& args, const Buffers& buffers, DeviceContext&) {
  with_distance(args.distance, [&]<class F>(F f) {
    label_losses(args.n, args.inputs, 1, buffers.get<std::int32_t>(1),
                 DistanceRow<F>{f, args.inputs, args.scale, buffers.get(0)}, buffers.get(2),
                 args.gradient ? buffers.get(3) : nullptr);
  });
}

}  // namespace omni
