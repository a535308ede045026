// This file defines the codelets crop, upsample and reorg. On cores they run their reference
// kernels.
#include "codelets/spatial/crop_mirror.hpp"
#include "codelets/spatial/reorg.hpp"
#include "codelets/spatial/upsample.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

Cost crop_forward_cost(const CropMirrorArgs& args) {
  const double dst = static_cast<double>(args.dst().count()) * args.n;
  return {.flops = 2 * dst, .bytes = 8 * dst};
}

Cost crop_backward_cost(const CropMirrorArgs& args) {
  const double dst = static_cast<double>(args.dst().count()) * args.n;
  const double src = static_cast<double>(args.src.count()) * args.n;
  return {.flops = dst, .bytes = 4 * (2 * dst + src)};
}

std::uint64_t crop_footprint(const CropMirrorArgs& args) {
  return footprint_of(args.n, args.src.h, args.src.w, args.src.c, args.out_h, args.out_w,
                      args.training && args.flip);
}

Cost upsample_forward_cost(const UpsampleArgs& args) {
  const double src = static_cast<double>(args.src.count()) * args.n;
  return {.flops = src, .bytes = 4 * src * (1 + args.stride * args.stride)};
}

Cost upsample_backward_cost(const UpsampleArgs& args) {
  const double src = static_cast<double>(args.src.count()) * args.n;
  const double block = args.stride * args.stride;
  return {.flops = 2 * src * block, .bytes = 4 * src * (1 + block)};
}

std::uint64_t upsample_footprint(const UpsampleArgs& args) {
  return footprint_of(args.n, args.src.h, args.src.w, args.src.c, args.stride);
}

Cost reorg_cost(const ReorgArgs& args) {
  return {.flops = 0, .bytes = 8 * static_cast<double>(args.wide.count()) * args.n};
}

std::uint64_t reorg_footprint(const ReorgArgs& args) {
  return footprint_of(args.n, args.wide.h, args.wide.w, args.wide.c, args.stride, args.to_depth);
}

}  // namespace

Codelet<CropMirrorArgs> crop_mirror_forward({
    .name = "crop_mirror_forward",
    .color = 0xe377c2,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(crop_mirror_forward)},
    .cost = crop_forward_cost,
    .footprint = crop_footprint,
});

Codelet<CropMirrorArgs> crop_mirror_backward({
    .name = "crop_mirror_backward",
    .color = 0xe377c2,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(crop_mirror_backward)},
    .cost = crop_backward_cost,
    .footprint = crop_footprint,
});

Codelet<UpsampleArgs> upsample_forward({
    .name = "upsample_forward",
    .color = 0x8c564b,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(upsample_forward)},
    .cost = upsample_forward_cost,
    .footprint = upsample_footprint,
});

Codelet<UpsampleArgs> upsample_backward({
    .name = "upsample_backward",
    .color = 0x8c564b,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(upsample_backward)},
    .cost = upsample_backward_cost,
    .footprint = upsample_footprint,
});

Codelet<ReorgArgs> reorg({
    .name = "reorg",
    .color = 0x7f7f7f,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(reorg)},
    .cost = reorg_cost,
    .footprint = reorg_footprint,
});

}  // namespace omni
