#include "codelets/convolution/cudnn/folded_tensors.hpp"

#include "codelets/convolution/folding.hpp"
#include "codelets/cuda/elements.cuh"
#include "codelets/cuda/map.cuh"
#include "codelets/cuda/rows.cuh"

namespace omni {
namespace {

constexpr int kVector = 8;  // channels; cuDNN's kernels for tensor cores need multiples of it

template <class T, class To>
struct FoldSrc {
  ConvShape shape;
  int folded_h, folded_w, folded_c;
  const T* src;
  To* folded;

  __device__ void operator()(int image, int y, int x, int vector) const {
    const int run = shape.stride_w * shape.c;  // channels of one row of a step's pixels
    int dy = vector * kVector / run, k = vector * kVector % run;
    const int first = (x * shape.stride_w - shape.pad_w) * shape.c, row_values = shape.w * shape.c;
    Lanes<kVector> values;
    for (float& value : values.at) {
      const int row = y * shape.stride_h + dy - shape.pad_h, at = first + k;
      const bool inside =
          dy < shape.stride_h && row >= 0 && row < shape.h && at >= 0 && at < row_values;
      value = inside
                  ? static_cast<float>(src[(std::int64_t{image} * shape.h + row) * row_values + at])
                  : 0.0f;
      if (++k == run) k = 0, ++dy;
    }
    const std::int64_t pixel = (std::int64_t{image} * folded_h + y) * folded_w + x;
    store(folded, pixel * folded_c + vector * kVector, values);
  }
};

// FoldedWeights maps a weight's place in the kernels to its place in the folded kernels, and back.
struct FoldedWeights {
  ConvShape shape;
  int taps, c;  // taps along a side of the folded kernel, and its channels

  __device__ std::int64_t place_of(std::int64_t weight) const {
    const auto k = static_cast<int>(weight % shape.c);
    const std::int64_t tap = weight / shape.c, line = tap / shape.kernel_w;
    const auto x = static_cast<int>(tap % shape.kernel_w),
               y = static_cast<int>(line % shape.kernel_h);
    const std::int64_t filter = line / shape.kernel_h;
    return ((filter * taps + y / shape.stride_h) * taps + x / shape.stride_w) * c +
           (y % shape.stride_h * shape.stride_w + x % shape.stride_w) * shape.c + k;
  }
  // Returns the place of the weight that is at a place in the folded kernels. A negative result
  // means that a zero is at that place.
  __device__ std::int64_t weight_at(std::int64_t place) const {
    const auto channel = static_cast<int>(place % c);
    const std::int64_t tap = place / c, line = tap / taps;
    const int pixel = channel / shape.c;
    const int y = static_cast<int>(line % taps) * shape.stride_h + pixel / shape.stride_w,
              x = static_cast<int>(tap % taps) * shape.stride_w + pixel % shape.stride_w;
    if (pixel >= shape.stride_h * shape.stride_w || y >= shape.kernel_h || x >= shape.kernel_w)
      return -1;
    return ((line / taps * shape.kernel_h + y) * shape.kernel_w + x) * shape.c + channel % shape.c;
  }
};

FoldedWeights folded_weights(const ConvShape& shape) {
  const ConvShape to = gpu::folded(shape);
  return {shape, to.kernel_h, to.c};
}

template <class T, class To>
struct FoldWeights {
  FoldedWeights at;
  const T* weights;
  To* folded;
  __device__ void operator()(std::int64_t place) const {
    const std::int64_t weight = at.weight_at(place);
    folded[place] = weight < 0 ? 0.0f : static_cast<float>(weights[weight]);
  }
};

template <class To>
struct AddUnfoldedWeights {
  FoldedWeights at;
  const To* folded;
  float keep;
  float* weights;
  __device__ void operator()(std::int64_t weight) const {
    const float kept = keep != 0.0f ? keep * weights[weight] : 0.0f;
    weights[weight] = kept + static_cast<float>(folded[at.place_of(weight)]);
  }
};

}  // namespace

bool gpu::is_worth_folding(const ConvShape& shape) {
  constexpr int kMostStride = 4;
  return Folding::supports(shape) && shape.c < kVector && shape.stride_h <= kMostStride;
}

ConvShape gpu::folded(const ConvShape& shape) {
  ConvShape folded = Folding(shape, kVector).folded();
  folded.filters = shape.filters;
  return folded;
}

template <class T, class To>
void gpu::fold_src(CudaWorker& worker, const ConvShape& shape, const T* src, To* to) {
  const ConvShape into = folded(shape);
  for_each_position(worker, shape.n, {into.h, into.w, into.c / kVector},
                    FoldSrc<T, To>{shape, into.h, into.w, into.c, src, to});
}
template <class T, class To>
void gpu::fold_weights(CudaWorker& worker, const ConvShape& shape, const T* weights, To* to) {
  for_each_element(worker, folded(shape).weights_count(),
                   FoldWeights<T, To>{folded_weights(shape), weights, to});
}
template <class To>
void gpu::add_unfolded_weights(CudaWorker& worker, const ConvShape& shape, const To* from,
                               float keep, float* weights) {
  for_each_element(worker, shape.weights_count(),
                   AddUnfoldedWeights<To>{folded_weights(shape), from, keep, weights});
}

template void gpu::fold_src(CudaWorker&, const ConvShape&, const float*, float*);
template void gpu::fold_src(CudaWorker&, const ConvShape&, const float*, Bf16*);
template void gpu::fold_src(CudaWorker&, const ConvShape&, const Bf16*, Bf16*);
template void gpu::fold_weights(CudaWorker&, const ConvShape&, const float*, float*);
template void gpu::fold_weights(CudaWorker&, const ConvShape&, const float*, Bf16*);
template void gpu::fold_weights(CudaWorker&, const ConvShape&, const Bf16*, Bf16*);
template void gpu::add_unfolded_weights(CudaWorker&, const ConvShape&, const float*, float, float*);
template void gpu::add_unfolded_weights(CudaWorker&, const ConvShape&, const Bf16*, float, float*);

}  // namespace omni
