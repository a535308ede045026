#include "codelets/spatial/upsample.hpp"

#include "codelets/definition.hpp"

namespace omni {
namespace {

Cost forward_cost(const UpsampleArgs& args) {
  const double src = static_cast<double>(args.src.count()) * args.n;
  return {.flops = src, .bytes = 4 * src * (1 + args.stride * args.stride)};
}

Cost backward_cost(const UpsampleArgs& args) {
  const double src = static_cast<double>(args.src.count()) * args.n;
  const double block = args.stride * args.stride;
  return {.flops = 2 * src * block, .bytes = 4 * src * (1 + block)};
}

std::uint64_t footprint(const UpsampleArgs& args) {
  return footprint_of(args.n, args.src.h, args.src.w, args.src.c, args.stride);
}

}  // namespace

Codelet<UpsampleArgs> upsample_forward({
    .name = "upsample_forward",
    .color = 0x8c564b,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(upsample_forward)},
    .cost = forward_cost,
    .footprint = footprint,
});

Codelet<UpsampleArgs> upsample_backward({
    .name = "upsample_backward",
    .color = 0x8c564b,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(upsample_backward)},
    .cost = backward_cost,
    .footprint = footprint,
});

}  // namespace omni
