#include "codelets/spatial/upsample.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// Writes the first of each `stride` equal rows value by value and the others as copies of it.
void forward_vector(const UpsampleArgs& args, const Buffers& buffers, DeviceContext&) {
  const int c = args.src.c;
  const std::int64_t dst_row = std::int64_t{args.src.w} * args.stride * c;
  const float* src = buffers.get(0);
  float* dst = buffers.get(1);
  for (std::int64_t row = std::int64_t{args.n} * args.src.h; row > 0; --row) {
    float* out = dst;
    for (int x = 0; x < args.src.w; ++x, src += c)
      for (int repeat = 0; repeat < args.stride; ++repeat, out += c)
        for (int k = 0; k < c; ++k) out[k] = args.scale * src[k];
    for (int repeat = 1; repeat < args.stride; ++repeat) out = std::copy_n(dst, dst_row, out);
    dst = out;
  }
}

void backward_vector(const UpsampleArgs& args, const Buffers& buffers, DeviceContext&) {
  const int c = args.src.c;
  const std::int64_t src_row = std::int64_t{args.src.w} * c;
  const float* diff_dst = buffers.get(0);
  float* diff_src = buffers.get(1);
  std::fill_n(diff_src, src_row * args.src.h * args.n, 0.0f);
  for (std::int64_t row = std::int64_t{args.n} * args.src.h; row > 0; --row, diff_src += src_row)
    for (int dy = 0; dy < args.stride; ++dy)
      for (int x = 0; x < args.src.w; ++x)
        for (int dx = 0; dx < args.stride; ++dx, diff_dst += c)
          for (int k = 0; k < c; ++k) diff_src[x * c + k] += args.scale * diff_dst[k];
}

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
    .implementations = {{"vector", forward_vector},
                        reference_implementation<reference::upsample_forward<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::upsample_forward)},
    .cost = forward_cost,
    .footprint = footprint,
});

Codelet<UpsampleArgs> upsample_backward({
    .name = "upsample_backward",
    .color = 0x8c564b,
    .implementations = {{"vector", backward_vector},
                        reference_implementation<reference::upsample_backward<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::upsample_backward)},
    .cost = backward_cost,
    .footprint = footprint,
});

}  // namespace omni
