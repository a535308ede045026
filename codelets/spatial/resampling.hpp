// Operations that only move pixels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/extent.hpp"
#include "runtime/rng.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

// ---- crop ----
//
// Cuts a window out of every image: at a random place and half of the time mirrored in training, in
// the centre otherwise. Values become x*2-1 unless told not to. The place depends on seed, layer
// and sample number only, so backward finds it again and any worker finds the same.

struct CropMirrorArgs {
  int n = 0;
  Extent src;
  int out_h = 0, out_w = 0;  // at most those of src
  bool training = false;     // random place
  bool flip = false;         // and mirrored half of the time
  bool adjust = true;        // x*2-1
  int layer = 0;
  std::uint64_t seed = 0, first_sample = 0;

  Extent dst() const { return {out_h, out_w, src.c}; }
};

struct CropWindow {
  int top, left;
  bool mirrored;
};

constexpr CropWindow crop_window(const CropMirrorArgs& args, int image) {
  const int free_h = args.src.h - args.out_h, free_w = args.src.w - args.out_w;
  if (!args.training) return {free_h / 2, free_w / 2, false};
  // Above any sample number: layers differ from each other, and from what is drawn without one.
  const std::uint64_t layer = static_cast<std::uint64_t>(args.layer) + 1;
  Draws draws(Philox(args.seed, RandomStream::augment),
              (args.first_sample + static_cast<std::uint64_t>(image)) ^ (layer << 48));
  const auto below = [&](int count) {
    return static_cast<int>(draws.below(static_cast<std::uint32_t>(count)));
  };
  CropWindow window{};
  window.top = below(free_h + 1);
  window.left = below(free_w + 1);
  window.mirrored = args.flip && below(2) == 1;
  return window;
}

namespace reference {

// Calls visit(index in src, index in dst) for every value of the windows.
void for_each_cropped(const CropMirrorArgs& args, auto visit) {
  std::int64_t in_dst = 0;
  for (int image = 0; image < args.n; ++image) {
    const CropWindow window = crop_window(args, image);
    for (int y = 0; y < args.out_h; ++y)
      for (int x = 0; x < args.out_w; ++x) {
        const int column = window.left + (window.mirrored ? args.out_w - 1 - x : x);
        const std::int64_t row = std::int64_t{image} * args.src.h + window.top + y;
        for (int k = 0; k < args.src.c; ++k)
          visit((row * args.src.w + column) * args.src.c + k, in_dst++);
      }
  }
}

template <class T>
void crop_mirror_forward(const CropMirrorArgs& args, const T* src, T* dst) {
  for_each_cropped(args, [&](std::int64_t in_src, std::int64_t in_dst) {
    dst[in_dst] = args.adjust ? src[in_src] * 2 - 1 : src[in_src];
  });
}

template <class T>
void crop_mirror_backward(const CropMirrorArgs& args, const T* diff_dst, T* diff_src) {
  std::fill_n(diff_src, static_cast<std::int64_t>(args.src.count()) * args.n, T{0});
  for_each_cropped(args, [&](std::int64_t in_src, std::int64_t in_dst) {
    diff_src[in_src] = args.adjust ? diff_dst[in_dst] * 2 : diff_dst[in_dst];
  });
}

}  // namespace reference

OMNI_CODELET(CropMirrorArgs, crop_mirror_forward);   // {src R, dst W}
OMNI_CODELET(CropMirrorArgs, crop_mirror_backward);  // {diff_dst R, diff_src W}

// ---- upsample ----
//
// Nearest-neighbour enlargement: every value of src, times scale, fills a stride x stride block of
// dst. Backward sums each block, which is also what Darknet's negative stride (reverse) does
// forward.

struct UpsampleArgs {
  int n = 0;
  Extent src;  // dst is src.h * stride x src.w * stride x src.c
  int stride = 2;
  float scale = 1;
};

namespace reference {

// Calls visit(index in src, index in dst) for every value of dst.
void for_each_upsampled(const UpsampleArgs& args, auto visit) {
  std::int64_t in_dst = 0;
  for (std::int64_t image = 0; image < args.n; ++image)
    for (int y = 0; y < args.src.h * args.stride; ++y)
      for (int x = 0; x < args.src.w * args.stride; ++x) {
        const std::int64_t row = image * args.src.h + y / args.stride;
        for (int k = 0; k < args.src.c; ++k)
          visit((row * args.src.w + x / args.stride) * args.src.c + k, in_dst++);
      }
}

template <class T>
void upsample_forward(const UpsampleArgs& args, const T* src, T* dst) {
  for_each_upsampled(args, [&](std::int64_t in_src, std::int64_t in_dst) {
    dst[in_dst] = static_cast<T>(args.scale) * src[in_src];
  });
}

template <class T>
void upsample_backward(const UpsampleArgs& args, const T* diff_dst, T* diff_src) {
  std::fill_n(diff_src, static_cast<std::int64_t>(args.src.count()) * args.n, T{0});
  for_each_upsampled(args, [&](std::int64_t in_src, std::int64_t in_dst) {
    diff_src[in_src] += static_cast<T>(args.scale) * diff_dst[in_dst];
  });
}

}  // namespace reference

OMNI_CODELET(UpsampleArgs, upsample_forward);   // {src R, dst W}
OMNI_CODELET(UpsampleArgs, upsample_backward);  // {diff_dst R, diff_src W}

// ---- reorg ----
//
// Space to depth and back. A stride x stride block of the wide side becomes one position of the
// deep side:
//   deep[y][x][(dy * stride + dx) * c + k] = wide[y * stride + dy][x * stride + dx][k]
// Each direction is the inverse, and the gradient, of the other.
//
// Darknet's reorg of a channels-first image mixes rows and channels in a further way that only
// makes sense for its own detector; it is not copied here.

struct ReorgArgs {
  int n = 0;
  Extent
      wide;  // h and w are multiples of stride; the deep side is h/stride x w/stride x c*stride^2
  int stride = 2;
  bool to_depth = true;  // forward goes from wide to deep; false is Darknet's reverse=1
};

namespace reference {

template <class T>
void reorg(const ReorgArgs& args, const T* src, T* dst) {
  const int stride = args.stride, deep_w = args.wide.w / stride;
  const std::int64_t deep_c = std::int64_t{args.wide.c} * stride * stride;
  std::int64_t in_wide = 0;
  for (std::int64_t image = 0; image < args.n; ++image)
    for (int y = 0; y < args.wide.h; ++y)
      for (int x = 0; x < args.wide.w; ++x)
        for (int k = 0; k < args.wide.c; ++k, ++in_wide) {
          const std::int64_t row = image * (args.wide.h / stride) + y / stride;
          const std::int64_t channel = (y % stride * stride + x % stride) * args.wide.c + k;
          const std::int64_t in_deep = (row * deep_w + x / stride) * deep_c + channel;
          if (args.to_depth)
            dst[in_deep] = src[in_wide];
          else
            dst[in_wide] = src[in_deep];
        }
}

}  // namespace reference

OMNI_CODELET(ReorgArgs, reorg);  // {src R, dst W}

}  // namespace omni
