// The crop layer's operation cuts a window out of every image. In training the window is at a
// random place and perhaps mirrored, otherwise it is in the centre. The place depends only on seed,
// layer and sample number, so backward and any worker compute it again.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/extent.hpp"
#include "runtime/rng.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct CropMirrorArgs {
  int n = 0;
  Extent src;
  int out_h = 0, out_w = 0;  // at most src.h and src.w
  bool training = false;     // true: a random place; false: the centre
  bool flip = false;         // true: in training, a random half of the windows is mirrored
  bool adjust = true;        // true: values become x*2-1
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
  // The layer's number is in bits above any sample number. So each layer draws different numbers,
  // and they differ from draws without a layer.
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

}  // namespace omni
