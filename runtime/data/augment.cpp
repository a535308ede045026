#include "runtime/data/augment.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "runtime/data/colour.hpp"
#include "runtime/rng.hpp"

namespace omni {
namespace {

using Pixels = std::span<const std::uint8_t>;

// Everything that varies, drawn in a fixed order whatever the options are.
struct Variation {
  float zoom = 0, degrees = 0, aspect = 1;
  float slack_y = 0.5f, slack_x = 0.5f;  // where the window lies: 0 first possible place, 1 last
  bool mirror = false;
  ColourShift colours;
};

float draw_factor(Draws& draws, float bound) {
  const float factor = draws.uniform(1, bound);
  return draws.bits() & 1 ? factor : 1 / factor;
}

Variation draw_variation(const AugmentOptions& options, Draws draws) {
  Variation drawn;
  drawn.zoom = draws.uniform();
  drawn.degrees = draws.uniform(-options.angle, options.angle);
  drawn.aspect = draw_factor(draws, options.aspect);
  drawn.slack_y = draws.uniform();
  drawn.slack_x = draws.uniform();
  const bool heads = draws.bits() & 1;
  drawn.mirror = options.flip && heads;
  drawn.colours.hue = draws.uniform(-options.hue, options.hue);
  drawn.colours.saturation = draw_factor(draws, options.saturation);
  drawn.colours.exposure = draw_factor(draws, options.exposure);
  if (options.center) {
    drawn.zoom = drawn.degrees = 0;
    drawn.aspect = 1;
    drawn.slack_y = drawn.slack_x = 0.5f;
  }
  return drawn;
}

// Net pixels per image pixel, down the image; across it is divided by `aspect`. (Darknet measures
// the shorter side as if it were multiplied, so that its windows may leave the image.)
float choose_scale(Extent image, Extent net, const AugmentOptions& options, float zoom,
                   float aspect) {
  const auto height = static_cast<float>(image.h), width = static_cast<float>(image.w) / aspect;
  float scale = 1;
  if (options.min_crop > 0 || options.max_crop > 0) {
    const int side = std::max(net.h, net.w);
    int low = options.min_crop > 0 ? options.min_crop : side;
    int high = options.max_crop > 0 ? options.max_crop : 2 * side;
    if (low > high) std::swap(low, high);
    const float target =
        static_cast<float>(low) + std::floor(zoom * static_cast<float>(high - low + 1));
    scale = std::min(target, static_cast<float>(high)) / std::min(height, width);
  }
  return std::max({scale, static_cast<float>(net.h) / height, static_cast<float>(net.w) / width});
}

void copy_window(Pixels src, Extent image, Extent net, int top, int left, float* dst) {
  const auto channels = static_cast<std::size_t>(image.c);
  const std::size_t row = static_cast<std::size_t>(net.w) * channels;
  for (int y = 0; y < net.h; ++y) {
    const auto line = static_cast<std::size_t>(top + y) * static_cast<std::size_t>(image.w);
    const std::uint8_t* from = src.data() + (line + static_cast<std::size_t>(left)) * channels;
    for (std::size_t i = 0; i < row; ++i) dst[i] = static_cast<float>(from[i]) / 255.0f;
    dst += row;
  }
}

struct Neighbours {
  std::size_t first, second;  // equal beyond the edge
  float weight;               // of the second

  Neighbours(float at, int length) {
    const float inside = std::clamp(at, 0.0f, static_cast<float>(length - 1));
    first = static_cast<std::size_t>(inside);
    second = std::min(first + 1, static_cast<std::size_t>(length - 1));
    weight = inside - static_cast<float>(first);
  }
};

// std::lerp keeps promises about infinities that cost branches.
float blend(float a, float b, float weight) { return a + (b - a) * weight; }

// Bilinear; pixel centres lie at half-integers, beyond the edge the edge goes on.
void sample_window(Pixels src, Extent image, Extent net, float scale, const Variation& v,
                   float* dst) {
  const auto image_h = static_cast<float>(image.h), image_w = static_cast<float>(image.w);
  const auto net_h = static_cast<float>(net.h), net_w = static_cast<float>(net.w);
  const float shift_y = (v.slack_y - 0.5f) * (image_h * scale - net_h);
  const float shift_x = (v.slack_x - 0.5f) * (image_w * scale / v.aspect - net_w);
  const float radians = v.degrees * std::numbers::pi_v<float> / 180;
  const float cosine = std::cos(radians), sine = std::sin(radians);
  const auto channels = static_cast<std::size_t>(image.c);
  const auto width = static_cast<std::size_t>(image.w);

  for (int y = 0; y < net.h; ++y) {
    const float from_centre_y = (static_cast<float>(y) + 0.5f - net_h / 2 + shift_y) / scale;
    for (int x = 0; x < net.w; ++x) {
      const float from_centre_x =
          (static_cast<float>(x) + 0.5f - net_w / 2 + shift_x) * v.aspect / scale;
      const Neighbours column(cosine * from_centre_x - sine * from_centre_y + image_w / 2 - 0.5f,
                              image.w);
      const Neighbours row(sine * from_centre_x + cosine * from_centre_y + image_h / 2 - 0.5f,
                           image.h);
      const std::uint8_t* top = src.data() + row.first * width * channels;
      const std::uint8_t* bottom = src.data() + row.second * width * channels;
      for (std::size_t c = 0; c < channels; ++c) {
        const auto at = [&](const std::uint8_t* line, std::size_t i) {
          return static_cast<float>(line[i * channels + c]);
        };
        const float above = blend(at(top, column.first), at(top, column.second), column.weight);
        const float below =
            blend(at(bottom, column.first), at(bottom, column.second), column.weight);
        *dst++ = blend(above, below, row.weight) / 255.0f;
      }
    }
  }
}

void mirror_rows(float* pixels, Extent extent) {
  const auto channels = static_cast<std::ptrdiff_t>(extent.c),
             width = static_cast<std::ptrdiff_t>(extent.w);
  for (int y = 0; y < extent.h; ++y, pixels += width * channels)
    for (std::ptrdiff_t left = 0, right = width - 1; left < right; ++left, --right)
      std::swap_ranges(pixels + left * channels, pixels + (left + 1) * channels,
                       pixels + right * channels);
}

// Grey from colour by the weights of BT.601; colour from grey by repetition.
Pixels convert_channels(Pixels src, Extent& image, int channels,
                        std::vector<std::uint8_t>& scratch) {
  if (image.c == channels) return src;
  const std::size_t count = static_cast<std::size_t>(image.h) * static_cast<std::size_t>(image.w);
  scratch.resize(count * static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < count; ++i) {
    if (channels == 3)
      std::fill_n(&scratch[3 * i], 3, src[i]);
    else
      scratch[i] = static_cast<std::uint8_t>(
          (299u * src[3 * i] + 587u * src[3 * i + 1] + 114u * src[3 * i + 2] + 500) / 1000);
  }
  image.c = channels;
  return scratch;
}

}  // namespace

bool can_convert_channels(int image_channels, int net_channels) {
  return image_channels == net_channels || (image_channels == 1 && net_channels == 3) ||
         (image_channels == 3 && net_channels == 1);
}

void prepare_image(Pixels image_pixels, Extent image, const AugmentOptions& options,
                   std::uint64_t seed, std::uint64_t sample, bool training, Extent net_input,
                   float* dst) {
  thread_local std::vector<std::uint8_t> scratch;
  const Pixels src = convert_channels(image_pixels, image, net_input.c, scratch);
  Variation variation;
  if (training)
    variation = draw_variation(options, Draws(Philox(seed, RandomStream::augment), sample));
  const float scale = choose_scale(image, net_input, options, variation.zoom, variation.aspect);

  if (scale == 1 && variation.degrees == 0 && variation.aspect == 1) {
    const auto offset = [](float share, int room) {
      return std::min(room, static_cast<int>(share * static_cast<float>(room + 1)));
    };
    copy_window(src, image, net_input, offset(variation.slack_y, image.h - net_input.h),
                offset(variation.slack_x, image.w - net_input.w), dst);
  } else {
    sample_window(src, image, net_input, scale, variation, dst);
  }
  if (variation.mirror) mirror_rows(dst, net_input);
  shift_colours({dst, net_input.count()}, net_input.c, variation.colours);
}

}  // namespace omni
