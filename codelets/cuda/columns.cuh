// Totals down the columns of a matrix with channels along its rows: bias gradients, the statistics
// of batch normalisation. In two steps whose order of additions does not depend on timing, so that
// a result repeats bit for bit: blocks of rows into partial totals, then those in order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "codelets/cuda/map.cuh"

namespace omni {

// The rows that one thread goes through: first, first + step, ... below last.
struct RowsOfThread {
  std::int64_t first, last;
  int step;
};

inline constexpr int kRowsTogether = 8;  // where a row is one load

// use(an array of what load(row) gives) for all rows, `together` in an array; what is left over
// comes in halves, quarters, ... A loop that is merely unrolled may end after every row, so that a
// load waits until the row before it is used.
template <int together, class Load, class Use>
__device__ void for_rows(const RowsOfThread& rows, Load load, Use use) {
  std::int64_t row = rows.first;
  for (; row + (together - 1) * rows.step < rows.last; row += together * rows.step) {
    std::array<decltype(load(row)), together> loaded;
#pragma unroll
    for (int i = 0; i < together; ++i) loaded[i] = load(row + i * rows.step);
    use(loaded);
  }
  if constexpr (together > 1)
    for_rows<together / 2>(RowsOfThread{row, rows.last, rows.step}, load, use);
}

// The values of a type that make a word: threads that load less keep too little memory busy.
template <class T>
inline constexpr int kLanesOfWord = std::max(1, static_cast<int>(4 / sizeof(T)));

// Calls use(std::integral_constant<int, lanes>): those of a word, if the rows of `pointers` divide
// into words, else 1.
template <class T, class Use, class... Each>
void with_words(int columns, Use use, const Each*... pointers) {
  if (divides(kLanesOfWord<T>, columns, pointers...))
    use(std::integral_constant<int, kLanesOfWord<T>>());
  else
    use(std::integral_constant<int, 1>());
}

// A total by column: Total{} is that of no row, add(other) takes in other rows. A thread has
// Collect::kLanes neighbouring columns, of which collect(rows, the first) gives the totals.
//
// Threads of one block: blockDim.x * kLanes columns, and blockDim.y, a power of two, takes turns
// with the rows. Then use(block of rows, column, Total).
template <unsigned threads, class Collect, class Use>
__global__ void column_totals_kernel(std::int64_t rows, int columns, std::int64_t rows_per_block,
                                     Collect collect, Use use) {
  using Total = typename Collect::Total;
  constexpr int kLanes = Collect::kLanes;
  __shared__ Total totals[kLanes][threads];
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * kLanes;
  const std::int64_t start = std::int64_t{blockIdx.y} * rows_per_block;
  const std::int64_t end = start + rows_per_block < rows ? start + rows_per_block : rows;
  const unsigned self = threadIdx.y * blockDim.x + threadIdx.x;
  std::array<Total, kLanes> own{};
  if (column < columns)
    own = collect(RowsOfThread{start + threadIdx.y, end, static_cast<int>(blockDim.y)}, column);
#pragma unroll
  for (int i = 0; i < kLanes; ++i) totals[i][self] = own[i];
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
      for (int i = 0; i < kLanes; ++i) totals[i][self].add(totals[i][self + half * blockDim.x]);
  }
  if (threadIdx.y == 0 && column < columns)
    for (int i = 0; i < kLanes; ++i) use(std::int64_t{blockIdx.y}, column + i, totals[i][self]);
}

template <class T>
struct StorePartial {
  T* partial;
  int columns;
  __device__ void operator()(std::int64_t block, int column, const T& total) const {
    partial[block * columns + column] = total;
  }
};

template <class T>
struct CollectPartials {
  using Total = T;
  static constexpr int kLanes = 1;
  const T* partial;
  int columns;
  __device__ std::array<T, 1> operator()(const RowsOfThread& blocks, int column) const {
    T total{};
    for_rows<kRowsTogether>(
        blocks, [&](std::int64_t block) { return partial[block * columns + column]; },
        [&](const auto& loaded) {
#pragma unroll
          for (const T& some : loaded) total.add(some);
        });
    return {total};
  }
};

template <class T, class Use>
struct UseTotal {
  Use use;
  __device__ void operator()(std::int64_t, int column, const T& total) const { use(column, total); }
};

// use(column, the total of what `collect` gives for all rows), on the device. Takes the worker's
// workspace.
template <class Collect, class Use>
void total_columns(CudaWorker& worker, std::int64_t rows, int columns, Collect collect, Use use) {
  using Total = typename Collect::Total;
  if (columns <= 0) return;
  const auto threads_of_row = static_cast<unsigned>(columns / Collect::kLanes);
  unsigned across = 1;
  while (across < 32 && across < threads_of_row) across *= 2;
  const unsigned tiles = (threads_of_row + across - 1) / across;
  const dim3 block(across, kThreads / across);
  // As many threads as fit, so that enough loads are on their way, but each block with enough rows
  // to be worth its partial total, and none with rows that are left over, but the last.
  constexpr std::int64_t kBlocksPerMultiprocessor = Collect::kLanes > 2 ? 6 : 8;  // 3 or 4 fit
  const std::int64_t together = std::int64_t{2 * kRowsTogether} * block.y;
  const std::int64_t wanted =
      std::max<std::int64_t>(1, kBlocksPerMultiprocessor * worker.multiprocessors() / tiles);
  const std::int64_t rows_per_block =
      together * std::max<std::int64_t>(1, (rows + together * wanted - 1) / (together * wanted));
  const std::int64_t blocks =
      std::max<std::int64_t>(1, (rows + rows_per_block - 1) / rows_per_block);
  auto* partial = static_cast<Total*>(worker.workspace(
      static_cast<std::size_t>(blocks) * static_cast<std::size_t>(columns) * sizeof(Total)));
  launch(column_totals_kernel<kThreads, Collect, StorePartial<Total>>,
         dim3(tiles, static_cast<unsigned>(blocks)), block, 0, worker.stream(), rows, columns,
         rows_per_block, collect, StorePartial<Total>{partial, columns});
  // Narrow tiles, so that many threads share the few rows of a column.
  const unsigned narrow = std::min(across, 4u);
  launch(column_totals_kernel<kThreads, CollectPartials<Total>, UseTotal<Total, Use>>,
         dim3((static_cast<unsigned>(columns) + narrow - 1) / narrow),
         dim3(narrow, kThreads / narrow), 0, worker.stream(), blocks, columns, blocks,
         CollectPartials<Total>{partial, columns}, UseTotal<Total, Use>{use});
}

// ---- sums, the usual totals ----

template <int figures>
struct ColumnSums {
  std::array<float, figures> sum;
  __device__ void add(const ColumnSums& other) {
    for (std::size_t i = 0; i < figures; ++i) sum[i] += other.sum[i];
  }
};

template <int figures, class Use>
struct UseSums {
  Use use;
  __device__ void operator()(int column, const ColumnSums<figures>& total) const {
    use(column, total.sum);
  }
};

// Backward through batch normalisation, from the totals of the gradient and of its product with
// src - mean.
struct StoreDiff {
  float* sums;
  const float* inv_std;
  int c;
  __device__ void operator()(int k, const ColumnSums<2>& total) const {
    sums[k] = total.sum[0];
    sums[c + k] = total.sum[1] * inv_std[k];
  }
};

}  // namespace omni
