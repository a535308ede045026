#include "codelets/spatial/crop_mirror.hpp"

#include "codelets/definition.hpp"

namespace omni {
namespace {

Cost forward_cost(const CropMirrorArgs& args) {
  const double dst = static_cast<double>(args.dst().count()) * args.n;
  return {.flops = 2 * dst, .bytes = 8 * dst};
}

Cost backward_cost(const CropMirrorArgs& args) {
  const double dst = static_cast<double>(args.dst().count()) * args.n;
  const double src = static_cast<double>(args.src.count()) * args.n;
  return {.flops = dst, .bytes = 4 * (2 * dst + src)};
}

std::uint64_t footprint(const CropMirrorArgs& args) {
  return footprint_of(args.n, args.src.h, args.src.w, args.src.c, args.out_h, args.out_w,
                      args.training && args.flip);
}

}  // namespace

Codelet<CropMirrorArgs> crop_mirror_forward({
    .name = "crop_mirror_forward",
    .color = 0xe377c2,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(crop_mirror_forward)},
    .cost = forward_cost,
    .footprint = footprint,
});

Codelet<CropMirrorArgs> crop_mirror_backward({
    .name = "crop_mirror_backward",
    .color = 0xe377c2,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(crop_mirror_backward)},
    .cost = backward_cost,
    .footprint = footprint,
});

}  // namespace omni
