// This file normalises mini-batches on a GPU. A thread always works on the same channels, and keeps
// their numbers in registers.
#include "codelets/normalise/batchnorm.hpp"

#include "codelets/cuda/columns.cuh"
#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

// The following code computes the moments of a slice.

// CollectMoments merges several rows at a time into the moments of the earlier rows. Two passes
// over registers compute the mean of these rows, and the deviations from it. So nothing cancels,
// and no single value is compared with a mean of thousands.
template <int lanes, class T>
struct CollectMoments {
  using Total = Moments<double>;
  static constexpr int kLanes = lanes;
  const T* src;
  int c;

  __device__ std::array<Total, lanes> operator()(const RowsOfThread& rows, int k) const {
    Moments<float> moments[lanes]{};
    float before = 0;  // rows before, the same in every lane, so that one division suffices
    for_rows<32 / lanes>(
        rows, [&](std::int64_t row) { return load<lanes>(src, row * c + k); },
        [&]<std::size_t together>(const std::array<Lanes<lanes>, together>& x) {
          Moments<float> next[lanes];
#pragma unroll
          for (int lane = 0; lane < lanes; ++lane) {
            float sum = 0, squares = 0;
#pragma unroll
            for (const auto& row : x) sum += row.at[lane];
            const float mean = sum / together;
#pragma unroll
            for (const auto& row : x) squares += (row.at[lane] - mean) * (row.at[lane] - mean);
            next[lane] = {together, mean, squares};
          }
          for (int lane = 0; lane < lanes; ++lane) {
            moments[lane].rows = before;
            moments[lane].add(next[lane]);
          }
          before += together;
        });
    std::array<Total, lanes> totals;
    for (int lane = 0; lane < lanes; ++lane)
      totals[lane] = {moments[lane].rows, moments[lane].mean, moments[lane].squares};
    return totals;
  }
};

struct StoreMoments {
  float* partial;
  int c;
  // These members are only used if the mini-batch is one slice. Otherwise `finish.mean` is null,
  // and other tasks merge and finish.
  batchnorm_channel::Merge<float> merge;
  batchnorm_channel::Finish<float> finish;
  __device__ void operator()(int k, const Moments<double>& moments) const {
    partial[k] = static_cast<float>(moments.mean);
    partial[c + k] = static_cast<float>(moments.squares);
    if (finish.mean == nullptr) return;
    merge(k);
    finish(k);
  }
};

// The following code makes the passes over a slice.

// Channels has the numbers of `lanes` channels. The activation's input is factor * (x - mean) +
// shift, with the same bits in every pass.
template <int lanes>
struct Channels {
  Lanes<lanes> mean, factor, shift;
  __device__ float before_activation(int i, float x) const {
    return factor.at[i] * (x - mean.at[i]) + shift.at[i];
  }
  __device__ float gradient(auto f, bool from_input, int i, float x) const {
    const float before = before_activation(i, x);
    return f.gradient(from_input ? before : f(before));
  }
};

// Statistics points to numbers by channel, in the GPU's memory.
struct Statistics {
  const float *mean, *inv_std, *scale, *shift;
  bool from_variance = false;
  float epsilon = 0;

  template <class... Pointer>
  bool divides(int lanes, int columns, Pointer... pointers) const {
    return omni::divides(lanes, columns, mean, inv_std, scale, shift, pointers...);
  }
  template <int lanes>
  __device__ Channels<lanes> of(int k) const {
    Channels<lanes> channels{load<lanes>(mean, k), load<lanes>(scale, k), load<lanes>(shift, k)};
    const Lanes<lanes> statistics = load<lanes>(inv_std, k);
    for (int i = 0; i < lanes; ++i)
      channels.factor.at[i] *=
          from_variance ? 1 / std::sqrt(statistics.at[i] + epsilon) : statistics.at[i];
    return channels;
  }
};

template <class F, int lanes, class T>
struct Apply {
  struct Column {
    Apply pass;
    Channels<lanes> channels;
    int k;
    struct Values {
      Lanes<lanes> x, sum;
    };
    __device__ Values load(std::int64_t row) const {
      const std::int64_t at = row * pass.c + k;
      Values values{omni::load<lanes>(pass.src, at), {}};
      if (pass.addend != nullptr) values.sum = omni::load<lanes>(pass.addend, at);
      return values;
    }
    __device__ void finish(std::int64_t row, Values values) const {
      for (int i = 0; i < lanes; ++i)
        values.x.at[i] = pass.f(channels.before_activation(i, values.x.at[i]) + values.sum.at[i]);
      store(pass.dst, row * pass.c + k, values.x);
    }
  };

  F f;
  Statistics statistics;
  const T *src, *addend;  // `addend` is null if there is none
  T* dst;
  int c;
  __device__ Column operator()(int column) const {
    return {*this, statistics.template of<lanes>(column * lanes), column * lanes};
  }
};

template <class F, int lanes, class T>
struct CollectDiff {
  struct Values {
    Lanes<lanes> x, given;
  };

  using Total = ColumnSums<2>;
  static constexpr int kLanes = lanes;
  F f;
  bool from_input;
  Statistics statistics;
  const T *src, *diff_dst;
  int c;

  __device__ std::array<Total, lanes> operator()(const RowsOfThread& rows, int k) const {
    const Channels<lanes> channels = statistics.template of<lanes>(k);
    std::array<Total, lanes> totals{};
    for_rows<kRowsTogether / 2>(
        rows,
        [&](std::int64_t row) {
          return Values{load<lanes>(src, row * c + k), load<lanes>(diff_dst, row * c + k)};
        },
        [&](const auto& loaded) {
#pragma unroll
          for (const Values& row : loaded)
            for (int i = 0; i < lanes; ++i) {
              const float x = row.x.at[i];
              const float diff = row.given.at[i] * channels.gradient(f, from_input, i, x);
              totals[i].add({{diff, diff * (x - channels.mean.at[i])}});
            }
        });
    return totals;
  }
};

template <class F, int lanes, class T>
struct CollectResidual {
  struct Values {
    std::int64_t at;
    Lanes<lanes> x, sum, given;
  };

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
};

// BackwardData computes diff_src = factor * diff + slope * (src - mean) + offset, where diff is the
// gradient before the activation.
template <class F, int lanes, class T>
struct BackwardData {
  struct Column {
    BackwardData pass;
    Channels<lanes> channels;
    Lanes<lanes> slope, offset;
    int k;
    struct Values {
      Lanes<lanes> x, diff;
    };
    __device__ Values load(std::int64_t row) const {
      const std::int64_t at = row * pass.c + k;
      return {omni::load<lanes>(pass.src, at), omni::load<lanes>(pass.diff_dst, at)};
    }
    __device__ void finish(std::int64_t row, Values values) const {
      Lanes<lanes>& diff = values.diff;
      for (int i = 0; i < lanes; ++i) {
        const float x = values.x.at[i];
        diff.at[i] *= channels.gradient(pass.f, pass.from_input, i, x);
        diff.at[i] = channels.factor.at[i] * diff.at[i] + slope.at[i] * (x - channels.mean.at[i]) +
                     offset.at[i];
      }
      store(pass.diff_src, row * pass.c + k, diff);
    }
  };

  F f;
  bool from_input;
  Statistics statistics;
  const T *src, *diff_dst;
  const float* total;
  T* diff_src;
  int c;
  float share_of_row;  // one row's share in the means of the mini-batch
  __device__ Column operator()(int column) const {
    const int k = column * lanes;
    Column result{*this, statistics.template of<lanes>(k), {}, {}, k};
    for (int i = 0; i < lanes; ++i) {
      const float factor = result.channels.factor.at[i];
      result.slope.at[i] = -factor * statistics.inv_std[k + i] * (total[c + k + i] * share_of_row);
      result.offset.at[i] = -factor * (total[k + i] * share_of_row);
    }
    return result;
  }
};

}  // namespace

void gpu::batchnorm_partial(const BatchnormSliceArgs& args, const Buffers& buffers,
                            DeviceContext&) {
  float* partial = buffers.get(1);
  StoreMoments store{partial, args.c, {{args.c, 0, args.rows}, partial, partial}, {}};
  if (buffers.count() > 2)
    store.finish = {{args.c, args.rows, args.momentum},
                    partial,
                    buffers.get(2),
                    buffers.get(3),
                    buffers.get(4),
                    buffers.get(5),
                    nullptr};
  with_values(buffers, [&]<class T>(T) {
    const T* src = buffers.get<T>(0);
    with_lanes<T, kLanesOfWord<T>>(divides(kLanesOfWord<T>, args.c, src), [&]<class N>(N) {
      total_columns(CudaWorker::current(), args.rows, args.c,
                    CollectMoments<N::value, T>{src, args.c}, store);
    });
  });
}

void gpu::batchnorm_merge(const BatchnormMergeArgs& args, const Buffers& buffers, DeviceContext&) {
  for_each_element(CudaWorker::current(), args.c,
                   batchnorm_channel::Merge<float>{args, buffers.get(0), buffers.get(1)});
}

void gpu::batchnorm_finish(const BatchnormFinishArgs& args, const Buffers& buffers,
                           DeviceContext&) {
  for_each_element(CudaWorker::current(), args.c,
                   batchnorm_channel::Finish<float>{args, buffers.get(0), buffers.get(1),
                                                    buffers.get(2), buffers.get(3), buffers.get(4),
                                                    args.counts ? buffers.get(5) : nullptr});
}

void gpu::batchnorm_apply(const BatchnormApplyArgs& args, const Buffers& buffers, DeviceContext&) {
  const Statistics statistics{buffers.get(1), buffers.get(2),     buffers.get(3),
                              buffers.get(4), args.from_variance, static_cast<float>(args.epsilon)};
  with_usual_activation(args.activation, buffers, [&]<class F, class T>(F f, T) {
    const T *src = buffers.get<T>(0), *addend = args.adds ? buffers.get<T>(6) : nullptr;
    T* dst = buffers.get<T>(5);
    with_lanes<T>(statistics.divides(kMostLanes<T>, args.c, src, addend, dst),
                  [&]<class N>(N lanes) {
                    for_each_column(CudaWorker::current(), args.rows, args.c / lanes,
                                    Apply<F, N::value, T>{f, statistics, src, addend, dst, args.c});
                  });
  });
}

void gpu::batchnorm_backward_reduce(const BatchnormReduceArgs& args, const Buffers& buffers,
                                    DeviceContext&) {
  const Statistics statistics{buffers.get(2), buffers.get(3), buffers.get(4), buffers.get(5)};
  const StoreDiff store(args.c, statistics.inv_std, buffers.get(6), buffers, 7);
  with_usual_activation(args.activation, buffers, [&]<class F, class T>(F f, T) {
    const T *src = buffers.get<T>(0), *diff_dst = buffers.get<T>(1);
    const bool words = statistics.divides(kLanesOfWord<T>, args.c, src, diff_dst);
    with_lanes<T, kLanesOfWord<T>>(words, [&]<class N>(N) {
      total_columns(CudaWorker::current(), args.rows, args.c,
                    CollectDiff<F, N::value, T>{f, gradient_needs_input(args.activation),
                                                statistics, src, diff_dst, args.c},
                    store);
    });
  });
}

void gpu::batchnorm_residual_reduce(const BatchnormReduceArgs& args, const Buffers& buffers,
                                    DeviceContext&) {
  const float *mean = buffers.get(3), *inv_std = buffers.get(4);
  with_usual_activation(args.activation, buffers, [&]<class F, class T>(F f, T) {
    const T *src = buffers.get<T>(0), *dst = buffers.get<T>(1), *diff_dst = buffers.get<T>(2);
    T* diff_addend = buffers.get<T>(6);
    // Passes that only read load 8 bytes at a time. This pass also writes between its loads, so it
    // uses vectors of 16 bytes.
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

void gpu::batchnorm_merge_sums(const BatchnormMergeArgs& args, const Buffers& buffers,
                               DeviceContext&) {
  for_each_element(CudaWorker::current(), std::int64_t{2} * args.c,
                   batchnorm_channel::MergeSums<float>{args, buffers.get(0), buffers.get(1)});
}

void gpu::batchnorm_parameter_gradient(const BatchnormParameterArgs& args, const Buffers& buffers,
                                       DeviceContext&) {
  for_each_element(CudaWorker::current(), args.c,
                   batchnorm_channel::ParameterGradient<float>{args, buffers.get(0), buffers.get(1),
                                                               buffers.get(2)});
}

void gpu::batchnorm_backward_data(const BatchnormBackwardArgs& args, const Buffers& buffers,
                                  DeviceContext&) {
  const Statistics statistics{buffers.get(2), buffers.get(3), buffers.get(4), buffers.get(5)};
  with_usual_activation(args.activation, buffers, [&]<class F, class T>(F f, T) {
    const T *src = buffers.get<T>(0), *diff_dst = buffers.get<T>(1);
    T* diff_src = buffers.get<T>(args.in_place ? 1 : 7);
    with_lanes<T>(
        statistics.divides(kMostLanes<T>, args.c, src, diff_dst, diff_src), [&]<class N>(N lanes) {
          for_each_column(
              CudaWorker::current(), args.rows, args.c / lanes,
              BackwardData<F, N::value, T>{f, gradient_needs_input(args.activation), statistics,
                                           src, diff_dst, buffers.get(6), diff_src, args.c,
                                           1 / static_cast<float>(args.batch_rows)});
        });
  });
}

}  // namespace omni
