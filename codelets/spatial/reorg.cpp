#include "codelets/spatial/reorg.hpp"

#include <cstring>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// The `stride` neighbours in a row of the wide side are one run of stride * c values on both sides.
void reorg_vector(const ReorgArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* src = buffers.get(0);
  float* dst = buffers.get(1);
  const std::int64_t run = std::int64_t{args.stride} * args.wide.c;
  const std::int64_t runs = args.wide.w / args.stride;
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(run);
  // No row of blocks crosses images, because h is a multiple of stride.
  const std::int64_t rows = std::int64_t{args.n} * args.wide.h;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t block_row = row / args.stride, dy = row % args.stride;
    for (std::int64_t x = 0; x < runs; ++x) {
      const std::int64_t in_wide = (row * runs + x) * run;
      const std::int64_t in_deep = ((block_row * runs + x) * args.stride + dy) * run;
      if (args.to_depth)
        std::memcpy(dst + in_deep, src + in_wide, bytes);
      else
        std::memcpy(dst + in_wide, src + in_deep, bytes);
    }
  }
}

Cost reorg_cost(const ReorgArgs& args) {
  return {.flops = 0, .bytes = 8 * static_cast<double>(args.wide.count()) * args.n};
}

std::uint64_t reorg_footprint(const ReorgArgs& args) {
  return footprint_of(args.n, args.wide.h, args.wide.w, args.wide.c, args.stride, args.to_depth);
}

}  // namespace

Codelet<ReorgArgs> reorg({
    .name = "reorg",
    .color = 0x7f7f7f,
    .implementations = {{"vector", reorg_vector},
                        reference_implementation<reference::reorg<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::reorg)},
    .cost = reorg_cost,
    .footprint = reorg_footprint,
});

void submit_reorg_backward(ReorgArgs args, const Tensor& diff_dst, const Tensor& diff_src,
                           TaskTag tag) {
  args.to_depth = !args.to_depth;
  reorg.submit(args, {read(diff_dst), write(diff_src)}, tag);
}

}  // namespace omni
