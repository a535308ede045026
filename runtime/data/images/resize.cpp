#include "runtime/data/images/resize.hpp"

#include <algorithm>
#include <cmath>

namespace omni {
namespace {

// A Between has the two source pixels of a target pixel, and the weight of the second.
struct Between {
  int first = 0, second = 0;
  float share = 0;
};

std::vector<Between> between(int from, int to) {
  std::vector<Between> all(static_cast<std::size_t>(to));
  const float step = static_cast<float>(from) / static_cast<float>(to);
  for (int i = 0; i < to; ++i) {
    const float at = std::clamp((static_cast<float>(i) + 0.5f) * step - 0.5f, 0.0f,
                                static_cast<float>(from - 1));
    const int first = static_cast<int>(at);
    all[static_cast<std::size_t>(i)] = {first, std::min(first + 1, from - 1),
                                        at - static_cast<float>(first)};
  }
  return all;
}

}  // namespace

Image resized(const Image& image, int h, int w) {
  const Extent from = image.extent;
  if (from.h == h && from.w == w) return image;
  Image result{.extent = {h, w, from.c}, .pixels = {}};
  result.pixels.reserve(result.extent.count());
  const std::vector<Between> columns = between(from.w, w);
  const auto pixel = [&](int y, int x, int c) {
    const std::size_t row = static_cast<std::size_t>(y) * static_cast<std::size_t>(from.w);
    return static_cast<float>(
        image.pixels[(row + static_cast<std::size_t>(x)) * static_cast<std::size_t>(from.c) +
                     static_cast<std::size_t>(c)]);
  };
  for (const Between& y : between(from.h, h))
    for (const Between& x : columns)
      for (int c = 0; c < from.c; ++c) {
        const auto in_row = [&](int row) {
          return std::lerp(pixel(row, x.first, c), pixel(row, x.second, c), x.share);
        };
        result.pixels.push_back(static_cast<std::uint8_t>(
            std::lround(std::lerp(in_row(y.first), in_row(y.second), y.share))));
      }
  return result;
}

Image with_channels(const Image& image, int channels) {
  if (image.extent.c == channels) return image;
  Image result{.extent = {image.extent.h, image.extent.w, channels}, .pixels = {}};
  const std::size_t from = image.extent.c == 1 ? 1 : 3;
  result.pixels.reserve(result.extent.count());
  for (std::size_t i = 0; i < image.pixels.size(); i += from) {
    const std::uint8_t* pixel = &image.pixels[i];
    if (channels == 1)
      result.pixels.push_back(static_cast<std::uint8_t>(
          (299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000));
    else
      result.pixels.insert(result.pixels.end(), 3, pixel[0]);
  }
  return result;
}

}  // namespace omni
