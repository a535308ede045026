#include "codelets/normalise/batchnorm_residual.hpp"

#include "codelets/cuda/activations.cuh"
#include "codelets/cuda/columns.cuh"
#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

template <class F, int lanes, class T>
class CollectResidual {
 public:
  using Total = ColumnSums<2>;
  static constexpr int kLanes = lanes;
  F f;
  const T *src, *dst, *diff_dst;
  const float* mean;
  T* diff_addend;
  int c;

  __device__ std::array<Total, lanes> operator()(const RowsOfThread& rows, int k) const {
    const Lanes<lanes> means = load<lanes>(mean, k);
    std::array<Total, lanes> totals{};
    for_rows<lanes == kMostLanes<T> ? 2 : 4>(
        rows,
        [&](std::int64_t row) {
          const std::int64_t at = row * c + k;
          return Values{at, load<lanes>(src, at), load<lanes>(dst, at), load<lanes>(diff_dst, at)};
        },
        [&](const auto& loaded) {
#pragma unroll
          for (const Values& row : loaded) {
            Lanes<lanes> diff = row.given;
            for (int i = 0; i < lanes; ++i) {
              diff.at[i] *= f.gradient(row.sum.at[i]);
              totals[i].add({{diff.at[i], diff.at[i] * (row.x.at[i] - means.at[i])}});
            }
            store(diff_addend, row.at, diff);
          }
        });
    return totals;
  }

 private:
  struct Values {
    std::int64_t at;
    Lanes<lanes> x, sum, given;
  };
};

}  // namespace

void gpu::batchnorm_residual_reduce(const BatchnormReduceArgs& args, const Buffers& buffers,
                                    DeviceContext&) {
  const float *mean = buffers.get(3), *inv_std = buffers.get(4);
  with_usual_activation(args.activation, buffers, [&]<class F, class T>(F f, T) {
    const T *src = buffers.get<T>(0), *dst = buffers.get<T>(1), *diff_dst = buffers.get<T>(2);
    T* diff_addend = buffers.get<T>(6);
    // Whole vectors: what is written lies between what is read, row by row.
    const bool vectors = divides(kMostLanes<T>, args.c, src, dst, diff_dst, diff_addend) &&
                         divides(kMostLanes<T>, args.c, mean);
    with_lanes<T>(vectors, [&]<class N>(N) {
      total_columns(
          CudaWorker::current(), args.rows, args.c,
          CollectResidual<F, N::value, T>{f, src, dst, diff_dst, mean, diff_addend, args.c},
          StoreDiff(args.c, inv_std, buffers.get(5), buffers, 7));
    });
  });
}

}  // namespace omni
