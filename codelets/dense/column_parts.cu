// This file joins, splits and adds up the parts of a matrix on a GPU.
#include "codelets/dense/column_parts.hpp"

#include <starpu.h>

#include <array>
#include <cassert>

#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

// Parts are the buffers after the first one. Kernels get them as an argument by value.
using Parts = std::array<float*, STARPU_NMAXBUFS - 1>;

Parts parts_of(const Buffers& buffers, int count) {
  Parts parts{};
  assert(static_cast<std::size_t>(count) <= parts.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) parts[i] = buffers.get(1 + i);
  return parts;
}

// ColumnCopy copies some columns of a matrix. dst and src have different distances between rows.
template <int lanes>
struct ColumnCopy {
  const Lanes<lanes>* src;
  Lanes<lanes>* dst;
  int src_stride, dst_stride;
  __device__ void operator()(std::int64_t row) const {
    dst[row * dst_stride] = src[row * src_stride];
  }
};

// CopyColumns finds where a column of the matrix is in its part. All sizes count vectors of `lanes`
// values.
template <int lanes, bool joins>
struct CopyColumns {
  ColumnPartsArgs args;
  Lanes<lanes>* matrix;
  Parts parts;
  __device__ ColumnCopy<lanes> operator()(int column) const {
    const int part = column / args.width, width = args.width_of(part);
    auto* const in_part = reinterpret_cast<Lanes<lanes>*>(parts[part]) +
                          std::int64_t{args.first_row} * width + column % args.width;
    if constexpr (joins) return {in_part, matrix + column, width, args.columns};
    return {matrix + column, in_part, args.columns, width};
  }
};

template <bool joins>
void copy_columns(const ColumnPartsArgs& args, const Buffers& buffers) {
  const Parts parts = parts_of(buffers, args.parts());
  bool aligned = divides(4, args.columns, buffers.get(0)) && args.width % 4 == 0;
  for (const float* part : parts) aligned = aligned && divides(4, 0, part);
  with_lanes<float>(aligned, [&]<class N>(N lanes) {
    ColumnPartsArgs in_lanes = args;
    in_lanes.columns /= lanes;
    in_lanes.width /= lanes;
    for_each_column(CudaWorker::current(), args.rows, in_lanes.columns,
                    CopyColumns<N::value, joins>{in_lanes, buffers.get<Lanes<N::value>>(0), parts});
  });
}

template <int lanes>
struct PartsSum {
  int count;
  std::int64_t skipped;  // floats before the first row, in every part
  Parts parts;
  Lanes<lanes>* dst;
  __device__ void operator()(std::int64_t i) const {
    Lanes<lanes> sum{};
    for (std::size_t part = 0; part < static_cast<std::size_t>(count); ++part) {
      const auto addend = reinterpret_cast<const Lanes<lanes>*>(parts[part] + skipped)[i];
      for (int k = 0; k < lanes; ++k) sum.at[k] += addend.at[k];
    }
    dst[i] = sum;
  }
};

}  // namespace

void gpu::join_columns(const ColumnPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  copy_columns<true>(args, buffers);
}

void gpu::split_columns(const ColumnPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  copy_columns<false>(args, buffers);
}

void gpu::sum_parts(const SumPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  const std::int64_t count = std::int64_t{args.rows} * args.columns;
  const std::int64_t skipped = std::int64_t{args.first_row} * args.columns;
  const Parts parts = parts_of(buffers, args.parts);
  bool aligned = divides(4, count, buffers.get(0));
  for (const float* part : parts) aligned = aligned && divides(4, skipped, part);
  with_lanes<float>(aligned, [&]<class N>(N lanes) {
    for_each_element(
        CudaWorker::current(), count / lanes,
        PartsSum<N::value>{args.parts, skipped, parts, buffers.get<Lanes<N::value>>(0)});
  });
}

}  // namespace omni
