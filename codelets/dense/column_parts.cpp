#include "codelets/dense/column_parts.hpp"

#include <vector>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// Returns the buffers of the parts, which follow the first buffer.
template <class T>
std::vector<T*> parts_of(const Buffers& buffers, int count) {
  std::vector<T*> parts;
  for (int i = 1; i <= count; ++i) parts.push_back(buffers.get(i));
  return parts;
}

void join(const ColumnPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::join_columns<float>(args, parts_of<const float>(buffers, args.parts()),
                                 buffers.get(0));
}

void split(const ColumnPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::split_columns<float>(args, buffers.get(0), parts_of<float>(buffers, args.parts()));
}

void sum(const SumPartsArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::sum_parts<float>(args, parts_of<const float>(buffers, args.parts), buffers.get(0));
}

Cost columns_cost(const ColumnPartsArgs& args) {
  return {.flops = 0, .bytes = 8.0 * args.rows * args.columns};
}

Cost sum_cost(const SumPartsArgs& args) {
  const double values = 1.0 * args.rows * args.columns;
  return {.flops = values * (args.parts - 1), .bytes = 4 * values * (args.parts + 1)};
}

constexpr std::uint32_t kColumnPartsColor = 0x7f7f7f;  // as of other codelets that move data

std::vector<Access> accesses(Access first, std::span<Tensor* const> parts, AccessMode mode) {
  std::vector<Access> all{first};
  for (const Tensor* part : parts) all.push_back({*part, mode});
  return all;
}

}  // namespace

Codelet<ColumnPartsArgs> join_columns({
    .name = "join_columns",
    .color = kColumnPartsColor,
    .implementations = {{"vector", join}, OMNI_GPU_IMPLEMENTATION(gpu::join_columns)},
    .cost = columns_cost,
    .footprint =
        footprint_by<&ColumnPartsArgs::rows, &ColumnPartsArgs::columns, &ColumnPartsArgs::width>,
});

Codelet<ColumnPartsArgs> split_columns({
    .name = "split_columns",
    .color = kColumnPartsColor,
    .implementations = {{"vector", split}, OMNI_GPU_IMPLEMENTATION(gpu::split_columns)},
    .cost = columns_cost,
    .footprint =
        footprint_by<&ColumnPartsArgs::rows, &ColumnPartsArgs::columns, &ColumnPartsArgs::width>,
});

Codelet<SumPartsArgs> sum_parts({
    .name = "sum_parts",
    .color = kColumnPartsColor,
    .implementations = {{"vector", sum}, OMNI_GPU_IMPLEMENTATION(gpu::sum_parts)},
    .cost = sum_cost,
    .footprint = footprint_by<&SumPartsArgs::rows, &SumPartsArgs::columns, &SumPartsArgs::parts>,
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
