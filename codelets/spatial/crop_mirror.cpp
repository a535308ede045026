#include "codelets/spatial/crop_mirror.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// Calls visit(src row of the window, dst row, mirrored) for every row of every window.
template <class Visit>
void for_each_row(const CropMirrorArgs& args, Visit visit) {
  std::int64_t in_dst = 0;
  for (int image = 0; image < args.n; ++image) {
    const CropWindow window = crop_window(args, image);
    for (int y = 0; y < args.out_h; ++y) {
      const std::int64_t row = std::int64_t{image} * args.src.h + window.top + y;
      visit((row * args.src.w + window.left) * args.src.c, in_dst, window.mirrored);
      in_dst += std::int64_t{args.out_w} * args.src.c;
    }
  }
}

// to = from * factor + offset for one row of the window, pixels in reverse order if mirrored (which
// is its own inverse, so backward uses it too).
template <class Channels>
void copy_row(const float* from, float* to, int pixels, Channels channels, bool mirrored,
              float factor, float offset) {
  const int c = channels;
  if (!mirrored) {
    for (int i = 0; i < pixels * c; ++i) to[i] = from[i] * factor + offset;
    return;
  }
  for (int x = 0; x < pixels; ++x)
    for (int k = 0; k < c; ++k) to[x * c + k] = from[(pixels - 1 - x) * c + k] * factor + offset;
}

// Images have one or three channels; known to the compiler, they are unrolled.
void copy_row(const CropMirrorArgs& args, const float* from, float* to, bool mirrored, float factor,
              float offset) {
  switch (args.src.c) {
    case 1:
      return copy_row(from, to, args.out_w, std::integral_constant<int, 1>(), mirrored, factor,
                      offset);
    case 3:
      return copy_row(from, to, args.out_w, std::integral_constant<int, 3>(), mirrored, factor,
                      offset);
    default: return copy_row(from, to, args.out_w, args.src.c, mirrored, factor, offset);
  }
}

void forward_vector(const CropMirrorArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* src = buffers.get(0);
  float* dst = buffers.get(1);
  for_each_row(args, [&](std::int64_t in_src, std::int64_t in_dst, bool mirrored) {
    copy_row(args, src + in_src, dst + in_dst, mirrored, args.adjust ? 2.0f : 1.0f,
             args.adjust ? -1.0f : 0.0f);
  });
}

void backward_vector(const CropMirrorArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* diff_dst = buffers.get(0);
  float* diff_src = buffers.get(1);
  std::fill_n(diff_src, static_cast<std::int64_t>(args.src.count()) * args.n, 0.0f);
  for_each_row(args, [&](std::int64_t in_src, std::int64_t in_dst, bool mirrored) {
    copy_row(args, diff_dst + in_dst, diff_src + in_src, mirrored, args.adjust ? 2.0f : 1.0f, 0.0f);
  });
}

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
    .implementations = {{"vector", forward_vector},
                        reference_implementation<reference::crop_mirror_forward<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::crop_mirror_forward)},
    .cost = forward_cost,
    .footprint = footprint,
});

Codelet<CropMirrorArgs> crop_mirror_backward({
    .name = "crop_mirror_backward",
    .color = 0xe377c2,
    .implementations = {{"vector", backward_vector},
                        reference_implementation<reference::crop_mirror_backward<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::crop_mirror_backward)},
    .cost = backward_cost,
    .footprint = footprint,
});

}  // namespace omni
