// This file computes the locally connected layer on a GPU. Each location has one matrix product
// over the images of the slice. A batched call of cuBLAS computes many locations. Weights are
// rounded to bf16 by batch, so that they are still in the second-level cache when they are
// multiplied.
#include "codelets/dense/local.hpp"

#include "codelets/cuda/lowering.cuh"
#include "codelets/cuda/matmul.hpp"
#include "codelets/cuda/rounded_factors.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni {
namespace {

// A LocationBatch has the locations of one batched call, and the matrices of their products, which
// have a row per image. T is the type of the lowered matrix.
template <class T>
struct LocationBatch {
  gpu::Patches patches;
  T* columns;
  int columns_stride;
  std::int64_t first_weight, first_output;
};

template <class T>
void for_each_batch(CudaWorker& worker, const LocalShape& shape, auto use) {
  constexpr std::int64_t kMostProducts = 65535;  // in a call; limit of a dimension of cuBLAS's grid
  const ConvShape& s = shape.conv;
  const int most = static_cast<int>(
      std::clamp<std::int64_t>(gpu::most_patches(worker, s) / s.n, 1,
                               std::min<std::int64_t>(kMostProducts, shape.locations())));
  auto* columns = static_cast<T*>(
      worker.workspace(sizeof(T) * static_cast<std::size_t>(std::int64_t{s.n} * most * s.taps())));
  for (int first = 0; first < shape.locations(); first += most) {
    const int count = std::min(most, shape.locations() - first);
    use(LocationBatch<T>{{0, s.n, first, count},
                         columns,
                         count * s.taps(),
                         first * s.weights_count(),
                         std::int64_t{first} * s.filters});
  }
}

}  // namespace

void gpu::local_forward(const LocalForwardArgs& args, const Buffers& buffers, DeviceContext&) {
  const ConvShape& s = args.shape.conv;
  const int outputs = args.shape.outputs();
  CudaWorker& worker = CudaWorker::current();
  float* const dst = buffers.get(3);
  with_factors([&]<class T>(T) {
    for_each_batch<T>(worker, args.shape, [&](const LocationBatch<T>& batch) {
      const T* const weights = as_factor<T>(worker, buffers.get(1) + batch.first_weight,
                                            batch.patches.locations * s.weights_count());
      im2col(worker, s, batch.patches, buffers.get(0), batch.columns);
      gemm<T>(worker, s.n, s.filters, s.taps(), {batch.columns, batch.columns_stride},
              {weights, s.taps(), true}, 0.0f, dst + batch.first_output, outputs,
              {batch.patches.locations, s.taps(), s.weights_count(), s.filters});
    });
  });
  add_bias_and_activate(worker, s.n, outputs, buffers.get(2), args.activation, dst);
}

void gpu::local_backward_weights(const LocalBackwardArgs& args, const Buffers& buffers,
                                 DeviceContext&) {
  const ConvShape& s = args.shape.conv;
  const int outputs = args.shape.outputs();
  CudaWorker& worker = CudaWorker::current();
  with_factors([&]<class T>(T) {
    const T* const diff_dst = as_factor<T>(worker, buffers.get(1), s.dst_count());
    for_each_batch<T>(worker, args.shape, [&](const LocationBatch<T>& batch) {
      im2col(worker, s, batch.patches, buffers.get(0), batch.columns);
      gemm<T>(worker, s.filters, s.taps(), s.n, {diff_dst + batch.first_output, outputs, true},
              {batch.columns, batch.columns_stride}, 1.0f, buffers.get(2) + batch.first_weight,
              s.taps(), {batch.patches.locations, s.filters, s.taps(), s.weights_count()});
    });
  });
  add_column_sums(worker, s.n, outputs, buffers.get(1), buffers.get(3));
}

void gpu::local_backward_data(const LocalBackwardArgs& args, const Buffers& buffers,
                              DeviceContext&) {
  const ConvShape& s = args.shape.conv;
  CudaWorker& worker = CudaWorker::current();
  with_factors([&]<class T>(T) {
    std::array<const T*, 2> factors{};  // diff_dst, and the weights of a batch
    for_each_batch<float>(worker, args.shape, [&](const LocationBatch<float>& batch) {
      const float* const weights = buffers.get(1) + batch.first_weight;
      const std::int64_t count = batch.patches.locations * s.weights_count();
      if (batch.patches.first_location == 0)  // no batch is larger than the first
        factors = as_factors<T>(
            worker, std::array{Factored{buffers.get(0), s.dst_count()}, Factored{weights, count}});
      else
        factors[1] = as_factor_at<T>(worker, factors[1], weights, count);
      gemm<T>(worker, s.n, s.taps(), s.filters,
              {factors[0] + batch.first_output, args.shape.outputs()}, {factors[1], s.taps()}, 0.0f,
              batch.columns, batch.columns_stride,
              {batch.patches.locations, s.filters, s.weights_count(), s.taps()});
      const bool adds = batch.patches.first_location > 0;
      col2im(worker, s, batch.patches, adds, batch.columns, buffers.get(2));
    });
  });
}

}  // namespace omni
