// These codelets move values between slices of images and blocks of neurons. In a large connected
// layer a task has a block of neurons and all images of a mini-batch, so weights are read once. In
// the layers before and after it a task has a slice of images and all neurons. In between, a matrix
// (images x columns) is stored as parts: blocks of `width` columns, each in its own tensor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

// ColumnPartsArgs describes parts of a matrix. The rows [first_row, first_row + rows) of all parts
// make one dense matrix of rows x columns.
struct ColumnPartsArgs {
  int rows = 0, first_row = 0;
  int columns = 0;
  int width = 0;  // columns per part; the last part has the rest

  constexpr int parts() const { return (columns + width - 1) / width; }
  constexpr int first_column(int part) const { return part * width; }
  constexpr int width_of(int part) const { return std::min(width, columns - first_column(part)); }
};

// SumPartsArgs describes parts whose sum is the matrix: every part has all columns.
struct SumPartsArgs {
  int rows = 0, first_row = 0;
  int columns = 0;
  int parts = 0;
};

namespace reference {

// Calls copy(place in the matrix, part, place in the part, values) for every row of every part.
void for_each_row(const ColumnPartsArgs& args, auto copy) {
  for (int part = 0; part < args.parts(); ++part)
    for (int row = 0; row < args.rows; ++row)
      copy(std::int64_t{row} * args.columns + args.first_column(part), part,
           std::int64_t{args.first_row + row} * args.width_of(part), args.width_of(part));
}

template <class T>
void join_columns(const ColumnPartsArgs& args, std::span<const T* const> parts, T* dst) {
  for_each_row(args, [&](std::int64_t at, std::size_t part, std::int64_t in_part, int count) {
    std::copy_n(parts[part] + in_part, count, dst + at);
  });
}

template <class T>
void split_columns(const ColumnPartsArgs& args, const T* src, std::span<T* const> parts) {
  for_each_row(args, [&](std::int64_t at, std::size_t part, std::int64_t in_part, int count) {
    std::copy_n(src + at, count, parts[part] + in_part);
  });
}

// Adds up the parts block by block, so that the sums of a block stay in the first-level cache.
template <class T>
void sum_parts(const SumPartsArgs& args, std::span<const T* const> parts, T* dst) {
  constexpr std::int64_t kBlock = 2048;
  const std::int64_t count = std::int64_t{args.rows} * args.columns;
  const std::int64_t skipped = std::int64_t{args.first_row} * args.columns;
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const std::int64_t length = std::min(kBlock, count - at);
    T* __restrict sum = std::copy_n(parts[0] + skipped + at, length, dst + at) - length;
    for (const T* part : parts.subspan(1))
      for (std::int64_t i = 0; i < length; ++i) sum[i] += part[skipped + at + i];
  }
}

}  // namespace reference

OMNI_CODELET(ColumnPartsArgs, join_columns);   // {dst W, parts R ...}
OMNI_CODELET(ColumnPartsArgs, split_columns);  // {src R, parts += ...}; other rows stay as they are
OMNI_CODELET(SumPartsArgs, sum_parts);         // {dst W, parts R ...}

void submit_join_columns(const ColumnPartsArgs& args, std::span<Tensor* const> parts,
                         const Tensor& dst, TaskTag tag = {});
void submit_split_columns(const ColumnPartsArgs& args, const Tensor& src,
                          std::span<Tensor* const> parts, TaskTag tag = {});
void submit_sum_parts(SumPartsArgs args, std::span<Tensor* const> parts, const Tensor& dst,
                      TaskTag tag = {});

}  // namespace omni
