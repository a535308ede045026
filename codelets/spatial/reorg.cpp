#include "codelets/spatial/reorg.hpp"

#include "codelets/definition.hpp"

namespace omni {
namespace {

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
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(reorg)},
    .cost = reorg_cost,
    .footprint = reorg_footprint,
});

void submit_reorg_backward(ReorgArgs args, const Tensor& diff_dst, const Tensor& diff_src,
                           TaskTag tag) {
  args.to_depth = !args.to_depth;
  reorg.submit(args, {read(diff_dst), write(diff_src)}, tag);
}

}  // namespace omni
