// This header adds up the columns of a matrix with channels along its rows, for bias gradients and
// the statistics of batch normalisation. One launch computes the totals: the last block of a group
// adds up the totals of the group's blocks. The order does not depend on timing, so results have
// the same bits in every run.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "codelets/cuda/map.cuh"

namespace omni {

// RowsOfThread are the rows of one thread: first, first + step, ... below last.
struct RowsOfThread {
  std::int64_t first, last;
  int step;
};

inline constexpr int kRowsTogether = 8;  // rows in an array of for_rows(), if each row is one load

// Calls use(array) until all rows are done; an array has load(row) of `together` rows. Rows left
// over come in arrays of half that size, then a quarter, and so on. All loads of an array precede
// its use. An unrolled loop could end after every row, so each load would wait for the use before.
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

// Each thread loads this many values of the type, 8 bytes. Smaller loads use too little of the
// memory bandwidth, and totals of more columns take too many registers.
template <class T>
inline constexpr int kLanesOfWord = static_cast<int>(8 / sizeof(T));

constexpr unsigned kGroup = 32;  // blocks in a group

// A column has a Total: Total{} is the total of no rows, and add(other) adds the total of other
// rows. A thread has Collect::kLanes neighbouring columns; collect(rows, first column) returns
// their totals.
//
// A block has blockDim.x * kLanes columns. Its blockDim.y rows of threads, a power of two, take
// turns with the matrix's rows. At the end use(column, total) is called. `arrived` must hold zeros,
// and holds zeros again afterwards.
template <unsigned threads, class Collect, class Use>
__global__ void column_totals_kernel(std::int64_t rows, int columns, std::int64_t rows_per_block,
                                     Collect collect, Use use, typename Collect::Total* partial,
                                     unsigned* arrived) {
  using Total = typename Collect::Total;
  constexpr int kLanes = Collect::kLanes;
  __shared__ Total totals[kLanes][threads];
  __shared__ bool is_last;
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * kLanes;
  const std::int64_t start = std::int64_t{blockIdx.y} * rows_per_block;
  const std::int64_t end = start + rows_per_block < rows ? start + rows_per_block : rows;
  const unsigned self = threadIdx.y * blockDim.x + threadIdx.x;
  std::array<Total, kLanes> own{};
  if (column < columns)
    own = collect(RowsOfThread{start + threadIdx.y, end, static_cast<int>(blockDim.y)}, column);
  for (unsigned blocks = gridDim.y, block = blockIdx.y;;) {
#pragma unroll
    for (int i = 0; i < kLanes; ++i) totals[i][self] = own[i];
    for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.y < half)
        for (int i = 0; i < kLanes; ++i) totals[i][self].add(totals[i][self + half * blockDim.x]);
    }
    const bool holds = threadIdx.y == 0 && column < columns;
    if (blocks == 1) {
      if (holds)
        for (int i = 0; i < kLanes; ++i) use(column + i, totals[i][self]);
      return;
    }
    Total* const of_column = partial + column;
    if (holds)
      for (int i = 0; i < kLanes; ++i)
        of_column[std::int64_t{block} * columns + i] = totals[i][self];
    const unsigned groups = (blocks + kGroup - 1) / kGroup, group = block / kGroup;
    const unsigned first = group * kGroup, last = min(first + kGroup, blocks);
    unsigned& count = arrived[blockIdx.x * groups + group];
    __threadfence();
    __syncthreads();
    if (self == 0) is_last = atomicAdd(&count, 1u) + 1 == last - first;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    if (self == 0) count = 0;
    own = {};
    if (column < columns)
      for (unsigned member = first + threadIdx.y; member < last; member += blockDim.y)
#pragma unroll
        for (int i = 0; i < kLanes; ++i) own[i].add(of_column[std::int64_t{member} * columns + i]);
    partial += std::int64_t{blocks} * columns;
    arrived += gridDim.x * groups;
    blocks = groups;
    block = group;
  }
}

// Calls use(column, total) on the GPU, with the totals of what `collect` returns for all rows. Uses
// the worker's workspace.
template <class Collect, class Use>
void total_columns(CudaWorker& worker, std::int64_t rows, int columns, Collect collect, Use use) {
  using Total = typename Collect::Total;
  if (columns <= 0) return;
  const auto threads_of_row = static_cast<unsigned>(columns / Collect::kLanes);
  unsigned across = 1;
  while (across < 32 && across < threads_of_row) across *= 2;
  const unsigned tiles = (threads_of_row + across - 1) / across;
  const dim3 block(across, kThreads / across);
  // There are as many blocks as the device can run at once, so that enough loads are under way. But
  // there are fewer if a block would have too few rows to be worth its partial total. All blocks
  // but the last have the same number of rows.
  constexpr auto kKernel = column_totals_kernel<kThreads, Collect, Use>;
  const std::int64_t together = std::int64_t{2 * kRowsTogether} * block.y;
  const std::int64_t wanted = std::max<std::int64_t>(1, resident_blocks<kKernel>(worker) / tiles);
  const std::int64_t rows_per_block =
      together * std::max<std::int64_t>(1, (rows + together * wanted - 1) / (together * wanted));
  const std::int64_t blocks =
      std::max<std::int64_t>(1, (rows + rows_per_block - 1) / rows_per_block);
  // The totals of groups of blocks, of groups of groups and so on are fewer than the blocks, so
  // twice the blocks' memory suffices.
  auto* partial = static_cast<Total*>(worker.workspace(2 * blocks * columns * sizeof(Total)));
  launch(kKernel, dim3(tiles, static_cast<unsigned>(blocks)), block, 0, worker.stream(), rows,
         columns, rows_per_block, collect, use, partial, worker.counters());
}

// The following code computes sums, the usual totals.

template <int figures>
struct ColumnSums {
  std::array<float, figures> sum;
  __device__ void add(const ColumnSums& other) {
    for (std::size_t i = 0; i < figures; ++i) sum[i] += other.sum[i];
  }
};

// StoreDiff stores the sums of batch normalisation's backward pass. It computes them from the
// totals of the gradient, and of its product with src - mean.
struct StoreDiff {
  int c;
  const float* inv_std;
  float* sums;
  // The kernel adds to these gradients of scale and shift. They are null if another task does so.
  float *diff_scale = nullptr, *diff_shift = nullptr;
  // If the task has buffers of these gradients, they follow the first `others` buffers.
  StoreDiff(int columns, const float* statistics, float* to, const Buffers& buffers,
            std::size_t others)
      : c(columns), inv_std(statistics), sums(to) {
    if (buffers.count() == others) return;
    diff_scale = buffers.get(others);
    diff_shift = buffers.get(others + 1);
  }
  __device__ void operator()(int k, const ColumnSums<2>& total) const {
    sums[k] = total.sum[0];
    sums[c + k] = total.sum[1] * inv_std[k];
    if (diff_scale == nullptr) return;
    diff_scale[k] += sums[c + k];
    diff_shift[k] += sums[k];
  }
};

}  // namespace omni
