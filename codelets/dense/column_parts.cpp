#include "codelets/dense/column_parts.hpp"

#include <cstring>
#include <vector>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// The buffers behind the first one.
template <class T>
std::vector<T*> parts_of(const Buffers& buffers, int count) {
  std::vector<T*> parts;
  for (int i = 1; i <= count; ++i) parts.push_back(buffers.get(static_cast<std::size_t>(i)));
  return parts;
}

// Calls copy(place in the matrix, part, place in the part, values) for every row of every part.
template <class Copy>
void for_each_row(const ColumnPartsArgs& args, Copy copy) {
  for (int part = 0; part < args.parts(); ++part) {
    const std::int64_t width = args.width_of(part);
    for (int row = 0; row < args.rows; ++row)
      copy(std::int64_t{row} * args.columns + args.first_column(part),
           static_cast<std::size_t>(part), (args.first_row + row) * width,
           static_cast<std::size_t>(width));
  }
}

void join_vector(const ColumnPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  float* dst = buffers.get(0);
  for_each_row(
      args, [&](std::int64_t in_matrix, std::size_t part, std::int64_t in_part, std::size_t count) {
        std::memcpy(dst + in_matrix, buffers.get(1 + part) + in_part, sizeof(float) * count);
      });
}

void deal_vector(const ColumnPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* src = buffers.get(0);
  for_each_row(
      args, [&](std::int64_t in_matrix, std::size_t part, std::int64_t in_part, std::size_t count) {
        std::memcpy(buffers.get(1 + part) + in_part, src + in_matrix, sizeof(float) * count);
      });
}

// By blocks whose sums stay in the first-level cache while the parts pass by.
void sum_vector(const SumPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  constexpr std::int64_t kBlock = 2048;
  const std::int64_t count = std::int64_t{args.rows} * args.columns;
  const std::int64_t skipped = std::int64_t{args.first_row} * args.columns;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t length = std::min(kBlock, count - first);
    float* __restrict sum = buffers.get(0) + first;
    std::memcpy(sum, buffers.get(1) + skipped + first,
                sizeof(float) * static_cast<std::size_t>(length));
    for (std::size_t part = 2; part <= static_cast<std::size_t>(args.parts); ++part) {
      const float* __restrict values = buffers.get(part) + skipped + first;
      for (std::int64_t i = 0; i < length; ++i) sum[i] += values[i];
    }
  }
}

void join_reference(const ColumnPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::join_columns<float>(args, parts_of<const float>(buffers, args.parts()),
                                 buffers.get(0));
}

void deal_reference(const ColumnPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::split_columns<float>(args, buffers.get(0), parts_of<float>(buffers, args.parts()));
}

void sum_reference(const SumPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::sum_parts<float>(args, parts_of<const float>(buffers, args.parts), buffers.get(0));
}

Cost columns_cost(const ColumnPartsArgs& args) {
  return {.flops = 0, .bytes = 8.0 * args.rows * args.columns};
}

Cost sum_cost(const SumPartsArgs& args) {
  const double values = 1.0 * args.rows * args.columns;
  return {.flops = values * (args.parts - 1), .bytes = 4 * values * (args.parts + 1)};
}

std::uint64_t columns_footprint(const ColumnPartsArgs& args) {
  return footprint_of(args.rows, args.columns, args.width);
}

std::uint64_t sum_footprint(const SumPartsArgs& args) {
  return footprint_of(args.rows, args.columns, args.parts);
}

constexpr std::uint32_t kColumnPartsColor = 0x7f7f7f;  // of all that only moves data

std::vector<Access> accesses(Access first, std::span<Tensor* const> parts, AccessMode mode) {
  std::vector<Access> all{first};
  for (const Tensor* part : parts) all.push_back({*part, mode});
  return all;
}

}  // namespace

Codelet<ColumnPartsArgs> join_columns({
    .name = "join_columns",
    .color = kColumnPartsColor,
    .implementations = {{"vector", join_vector},
                        {"reference", join_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::join_columns)},
    .cost = columns_cost,
    .footprint = columns_footprint,
});

Codelet<ColumnPartsArgs> split_columns({
    .name = "split_columns",
    .color = kColumnPartsColor,
    .implementations = {{"vector", deal_vector},
                        {"reference", deal_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::split_columns)},
    .cost = columns_cost,
    .footprint = columns_footprint,
});

Codelet<SumPartsArgs> sum_parts({
    .name = "sum_parts",
    .color = kColumnPartsColor,
    .implementations = {{"vector", sum_vector},
                        {"reference", sum_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::sum_parts)},
    .cost = sum_cost,
    .footprint = sum_footprint,
});

void submit_join_columns(const ColumnPartsArgs& args, std::span<Tensor* const> parts,
                         const Tensor& dst, TaskTag tag) {
  join_columns.submit(args, accesses(write(dst), parts, AccessMode::read), tag);
}

void submit_split_columns(const ColumnPartsArgs& args, const Tensor& src,
                          std::span<Tensor* const> parts, TaskTag tag) {
  split_columns.submit(args, accesses(read(src), parts, AccessMode::accumulate), tag);
}

void submit_sum_parts(SumPartsArgs args, std::span<Tensor* const> parts, const Tensor& dst,
                      TaskTag tag) {
  args.parts = static_cast<int>(parts.size());
  sum_parts.submit(args, accesses(write(dst), parts, AccessMode::read), tag);
}

}  // namespace omni
