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

}  // namespace omni
