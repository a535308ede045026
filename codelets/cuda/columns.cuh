// Totals down the columns of a matrix with channels along its rows: bias gradients, the statistics
// of batch normalisation. One launch: the last block of a group adds up what the group's blocks
// left, in an order that does not depend on timing, so that a result repeats bit for bit.
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

// The values of a type that make 8 bytes: threads that load less keep too little memory busy, and
// totals of more take too many registers.
template <class T>
inline constexpr int kLanesOfWord = static_cast<int>(8 / sizeof(T));

constexpr unsigned kGroup = 32;  // of blocks

// A total by column: Total{} is that of no row, add(other) takes in other rows. A thread has
// Collect::kLanes neighbouring columns, of which collect(rows, the first) gives the totals.
//
// Threads of one block: blockDim.x * kLanes columns, and blockDim.y, a power of two, takes turns
// with the rows. Then use(column, Total). arrived: zeros, and left so.
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
      for (unsigned each = first + threadIdx.y; each < last; each += blockDim.y)
#pragma unroll
        for (int i = 0; i < kLanes; ++i) own[i].add(of_column[std::int64_t{each} * columns + i]);
    partial += std::int64_t{blocks} * columns;
    arrived += gridDim.x * groups;
    blocks = groups;
    block = group;
  }
}

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
  // As many blocks as fit, so that enough loads are on their way, but each with enough rows to be
  // worth its partial total, and none with rows that are left over, but the last.
  constexpr auto kKernel = column_totals_kernel<kThreads, Collect, Use>;
  const std::int64_t together = std::int64_t{2 * kRowsTogether} * block.y;
  const std::int64_t wanted = std::max<std::int64_t>(1, resident_blocks<kKernel>(worker) / tiles);
  const std::int64_t rows_per_block =
      together * std::max<std::int64_t>(1, (rows + together * wanted - 1) / (together * wanted));
  const std::int64_t blocks =
      std::max<std::int64_t>(1, (rows + rows_per_block - 1) / rows_per_block);
  // Those of groups, of groups of groups and so on are fewer than the blocks.
  auto* partial = static_cast<Total*>(worker.workspace(2 * blocks * columns * sizeof(Total)));
  launch(kKernel, dim3(tiles, static_cast<unsigned>(blocks)), block, 0, worker.stream(), rows,
         columns, rows_per_block, collect, use, partial, worker.counters());
}

// ---- sums, the usual totals ----

template <int figures>
struct ColumnSums {
  std::array<float, figures> sum;
  __device__ void add(const ColumnSums& other) {
    for (std::size_t i = 0; i < figures; ++i) sum[i] += other.sum[i];
  }
};

// Backward through batch normalisation, from the totals of the gradient and of its product with
// src - mean.
struct StoreDiff {
  int c;
  const float* inv_std;
  float* sums;
  // Of scale and shift, which are added to; null: in a task of its own.
  float *diff_scale = nullptr, *diff_shift = nullptr;
  // The buffers of the gradients may follow the `others`.
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
