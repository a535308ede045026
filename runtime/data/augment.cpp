#include "runtime/data/augment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "runtime/rng.hpp"

namespace omni {
namespace {

using Pixels = std::span<const std::uint8_t>;

// A Variation has everything that training varies in an image. The numbers are drawn in a fixed
// order, whatever the options are.
struct Variation {
  float zoom = 0, degrees = 0, aspect = 1;
  float slack_y = 0.5f,
        slack_x = 0.5f;  // place of the window: 0 is the first possible one, 1 the last
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

Variation choose_variation(const AugmentOptions& options, std::uint64_t seed, std::uint64_t sample,
                           bool training) {
  if (!training) return {};
  return draw_variation(options, Draws(Philox(seed, RandomStream::augment), sample));
}

// Returns the size of the shorter side that min_crop and max_crop ask for; 0 if neither is given.
float drawn_side(const AugmentOptions& options, Extent net, float zoom) {
  if (options.min_crop == 0 && options.max_crop == 0) return 0;
  const int side = std::max(net.h, net.w);
  int low = options.min_crop > 0 ? options.min_crop : side;
  int high = options.max_crop > 0 ? options.max_crop : 2 * side;
  if (low > high) std::swap(low, high);
  const float target =
      static_cast<float>(low) + std::floor(zoom * static_cast<float>(high - low + 1));
  return std::min(target, static_cast<float>(high));
}

// Returns the height of a pixel of the image, in pixels of the net. The width is the height divided
// by `aspect`. (Darknet measures the shorter side as if it were multiplied by `aspect`, so its
// windows may leave the image.)
float choose_scale(Extent image, Extent net, const AugmentOptions& options, float zoom,
                   float aspect) {
  const auto height = static_cast<float>(image.h), width = static_cast<float>(image.w) / aspect;
  float scale = options.all_sizes && !options.own_size ? 0 : 1;
  if (const float side = drawn_side(options, net, zoom); side > 0)
    scale = side / std::min(height, width);
  return std::max({scale, static_cast<float>(net.h) / height, static_cast<float>(net.w) / width});
}

void copy_window(Pixels src, Extent image, Extent net, int top, int left, float* dst) {
  const std::size_t channels = image.c;
  const std::size_t row = net.w * channels;
  for (int y = 0; y < net.h; ++y) {
    const auto line = static_cast<std::size_t>(top + y) * image.w;
    const std::uint8_t* from = src.data() + (line + left) * channels;
    for (std::size_t i = 0; i < row; ++i) dst[i] = static_cast<float>(from[i]) / 255.0f;
    dst += row;
  }
}

void copy_planes(Pixels src, Extent image, float* dst) {
  const std::size_t channels = image.c;
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t i = c; i < src.size(); i += channels)
      *dst++ = static_cast<float>(src[i]) / 255;
}

struct Neighbours {
  int first, second;  // equal at the last pixel and beyond
  float weight;       // weight of `second`

  Neighbours(float at, int length) {
    const float inside = std::clamp(at, 0.0f, static_cast<float>(length - 1));
    first = static_cast<int>(inside);
    second = std::min(first + 1, length - 1);
    weight = inside - static_cast<float>(first);
  }
};

// Interpolates. std::lerp has branches, since it also handles infinities.
float blend(float a, float b, float weight) { return a + (b - a) * weight; }

// A Window says where in the image each pixel of the net's input lies. Centres of pixels are at
// half-integers.
struct Window {
  Extent image, net;
  float scale, aspect, shift_y, shift_x;

  Window(Extent of, Extent onto, float scaled, const Variation& v)
      : image(of),
        net(onto),
        scale(scaled),
        aspect(v.aspect),
        shift_y((v.slack_y - 0.5f) *
                (static_cast<float>(of.h) * scaled - static_cast<float>(onto.h))),
        shift_x((v.slack_x - 0.5f) *
                (static_cast<float>(of.w) * scaled / v.aspect - static_cast<float>(onto.w))) {}
  // y_of() and x_of() return the distance from the image's centre, in pixels of the image.
  float y_of(int y) const {
    return (static_cast<float>(y) + 0.5f - static_cast<float>(net.h) / 2 + shift_y) / scale;
  }
  float x_of(int x) const {
    return (static_cast<float>(x) + 0.5f - static_cast<float>(net.w) / 2 + shift_x) * aspect /
           scale;
  }
  Neighbours row(float from_centre) const {
    return {from_centre + static_cast<float>(image.h) / 2 - 0.5f, image.h};
  }
  Neighbours column(float from_centre) const {
    return {from_centre + static_cast<float>(image.w) / 2 - 0.5f, image.w};
  }
  std::size_t row_values() const { return static_cast<std::size_t>(image.w) * image.c; }
};

// Samples bilinearly. Beyond the edge, the pixels of the edge are repeated.
template <int kChannels>
void sample_rotated(Pixels src, const Window& window, float degrees, float* dst) {
  const float radians = degrees * std::numbers::pi_v<float> / 180;
  const float cosine = std::cos(radians), sine = std::sin(radians);
  const int channels = kChannels > 0 ? kChannels : window.image.c;
  for (int y = 0; y < window.net.h; ++y) {
    const float down = window.y_of(y);
    for (int x = 0; x < window.net.w; ++x) {
      const float across = window.x_of(x);
      const Neighbours column = window.column(cosine * across - sine * down);
      const Neighbours row = window.row(sine * across + cosine * down);
      const auto line = [&](int at) { return src.data() + at * window.row_values(); };
      const std::uint8_t *top = line(row.first), *bottom = line(row.second);
      for (int c = 0; c < channels; ++c) {
        const int left = column.first * channels + c, right = column.second * channels + c;
        const auto across_line = [&](const std::uint8_t* values) {
          return blend(values[left], values[right], column.weight);
        };
        *dst++ = blend(across_line(top), across_line(bottom), row.weight) / 255.0f;
      }
    }
  }
}

// Samples bilinearly without rotation. As a row of the net's input then lies between two lines of
// the image, these lines are blended first.
void sample_upright(Pixels src, const Window& window, float* dst) {
  const int channels = window.image.c;
  thread_local std::vector<Neighbours> columns;
  columns.clear();
  for (int x = 0; x < window.net.w; ++x) columns.push_back(window.column(window.x_of(x)));
  const std::size_t begin = columns.front().first * channels;
  const std::size_t end = (columns.back().second + 1) * channels;
  thread_local std::vector<float> blended;
  blended.resize(window.row_values());
  for (int y = 0; y < window.net.h; ++y) {
    const Neighbours row = window.row(window.y_of(y));
    const auto line = [&](int at) { return src.data() + at * window.row_values(); };
    const std::uint8_t *top = line(row.first), *bottom = line(row.second);
    float* const values = blended.data();
    for (std::size_t i = begin; i < end; ++i)
      values[i] = blend(top[i], bottom[i], row.weight) / 255.0f;
    for (const Neighbours& column : columns)
      for (int c = 0; c < channels; ++c)
        *dst++ = blend(values[column.first * channels + c], values[column.second * channels + c],
                       column.weight);
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

// Converts colours to grey by the weights of BT.601, or grey to colours by repetition.
Pixels convert_channels(Pixels src, Extent& image, int channels,
                        std::vector<std::uint8_t>& scratch) {
  if (image.c == channels) return src;
  const std::size_t count = static_cast<std::size_t>(image.h) * image.w;
  scratch.resize(count * channels);
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

// A Place says where a window lies in the image.
struct Place {
  int y = 0, x = 0;
  bool mirror = false;
};

// Converts values in [0, 1] as options.byte_values says. `planes` means that the values of a
// channel are contiguous.
void take_byte_values(const AugmentOptions& options, Extent extent, Place place, bool planes,
                      float* dst) {
  const ByteValues& values = *options.byte_values;
  const std::size_t pixels = static_cast<std::size_t>(extent.h) * extent.w, channels = extent.c;
  const auto mean_of = [&, image = options.mean_image.get(), width = std::size_t(extent.w)](
                           std::size_t i, std::size_t c) {
    if (image == nullptr) return c < 3 ? values.mean[c] : 0;
    const std::size_t x = place.mirror ? width - 1 - i % width : i % width;
    const std::size_t row = place.y + i / width;
    return image->values[(row * image->extent.w + place.x + x) * channels + c];
  };
  const std::size_t of_pixel = planes ? 1 : channels, of_channel = planes ? pixels : 1;
  for (std::size_t i = 0; i < pixels; ++i) {
    float* const pixel = dst + i * of_pixel;
    if (values.blue_first && channels == 3) std::swap(pixel[0], pixel[2 * of_channel]);
    for (std::size_t c = 0; c < channels; ++c) {
      float& value = pixel[c * of_channel];
      value = (255 * value - mean_of(i, c)) * values.scale;
    }
  }
}

// The following functions change colours.

float lower(float a, float b) { return a < b ? a : b; }
float higher(float a, float b) { return a > b ? a : b; }
float within_unit(float value) { return lower(higher(value, 0), 1); }

// Returns which share of a saturated colour a channel lacks. It is 0 up to a sixth of the colour
// circle from the channel's own hue, and 1 from two sixths on.
float lack(float hue, float own) {
  const float away = hue - own;
  return within_unit(std::fabs(away - 6 * std::floor(away / 6 + 0.5f)) - 1);
}

// Hues are in sixths of the colour circle: red is 0, green 2, blue 4; grey has hue 0. The function
// chooses between values instead of branching, so the compiler can vectorise over pixels.
void shift_pixel(float* rgb, const ColourShift& shift) {
  const float r = rgb[0], g = rgb[1], b = rgb[2];
  const float high = higher(higher(r, g), b), range = high - lower(lower(r, g), b);
  const float from_green = 2 * range + (b - r), from_blue = 4 * range + (r - g);
  float turn = high == g ? from_green : from_blue;
  turn = high == r ? g - b : turn;
  constexpr float kNothing = 1e-30f;  // replaces a divisor of 0, where the dividend is 0, too
  const float hue = turn / higher(range, kNothing) + 6 * shift.hue;
  // A saturation beyond 1 would turn the smallest channel negative and with it change the hue.
  const float saturation = lower(1, shift.saturation * range / higher(high, kNothing));
  const float value = high * shift.exposure;
  rgb[0] = within_unit(value * (1 - saturation * lack(hue, 0)));
  rgb[1] = within_unit(value * (1 - saturation * lack(hue, 2)));
  rgb[2] = within_unit(value * (1 - saturation * lack(hue, 4)));
}

}  // namespace

Status check_input(const AugmentOptions& options, Extent image, Extent net_input,
                   const std::string& where) {
  if (const MeanImage* mean = options.mean_image.get();
      mean != nullptr && !(options.flat && image.h == 0)) {
    if (image.h == 0) image = {mean->extent.h, mean->extent.w, image.c};  // all are resized
    const Extent own{image.h, image.w, options.flat ? image.c : net_input.c};
    if (mean->extent != own)
      return Error{ErrorKind::usage, where,
                   fmt::format("has images of {}x{}x{}, but their mean is {}x{}x{}", own.w, own.h,
                               own.c, mean->extent.w, mean->extent.h, mean->extent.c),
                   "give the mean of these images, or one value of each channel"};
    if (!options.flat && !options.own_size && (image.h != net_input.h || image.w != net_input.w))
      return Error{ErrorKind::usage, where,
                   "has images that would be resized, which their mean is not",
                   "cut windows out of them, or give one mean of each channel"};
  }
  if (options.flat) {
    if (image.count() == net_input.count()) return {};
    return Error{ErrorKind::usage, where,
                 image.h == 0 ? "has images of all sizes, but the net wants vectors"
                              : fmt::format("has {} values per image, but the net wants {}",
                                            image.count(), net_input.count()),
                 image.h == 0 ? "give the net height, width and channels instead of inputs"
                              : fmt::format("give the net inputs={}", image.count())};
  }
  if (options.own_size && image.h > 0 && (image.h < net_input.h || image.w < net_input.w))
    return Error{ErrorKind::usage, where,
                 fmt::format("has images of {}x{} pixels, but {}x{} are cut out", image.w, image.h,
                             net_input.w, net_input.h),
                 "resize them, or cut out less"};
  const bool grey_or_colour =
      (image.c == 1 || image.c == 3) && (net_input.c == 1 || net_input.c == 3);
  if (image.c == net_input.c || grey_or_colour) return {};
  return Error{ErrorKind::usage, where,
               fmt::format("has images of {} channels, but the net wants {}", image.c, net_input.c),
               fmt::format("give the net channels={}", image.c)};
}

LeastSize least_size(const AugmentOptions& options, std::uint64_t seed, std::uint64_t sample,
                     bool training, Extent net_input) {
  const Variation variation = choose_variation(options, seed, sample, training);
  const float side = drawn_side(options, net_input, variation.zoom);
  if (options.mean_image) return {};  // the image is resized to the mean's size
  if (options.own_size) return {.needed_h = net_input.h, .needed_w = net_input.w};
  if (options.flat || (side == 0 && !options.all_sizes)) return {};
  const auto round_up = [](float length) { return static_cast<int>(std::ceil(length)); };
  return {.h = round_up(std::max(side, static_cast<float>(net_input.h))),
          .w = round_up(std::max(side, static_cast<float>(net_input.w)) * variation.aspect)};
}

bool keeps_bytes(const AugmentOptions& options, Extent image, bool training, Extent net_input) {
  if (options.byte_values) return false;
  if (options.flat) return true;
  const bool draws_windows = training && !options.center;
  if (draws_windows && (options.angle != 0 || options.aspect != 1)) return false;
  if (training && (options.saturation != 1 || options.exposure != 1 || options.hue != 0))
    return false;
  const auto scale = [&](float zoom) { return choose_scale(image, net_input, options, zoom, 1); };
  return scale(0) == 1 && (!draws_windows || scale(1) == 1);  // the scale grows with the zoom
}

void prepare_image(Pixels image_pixels, Extent image, const AugmentOptions& options,
                   std::uint64_t seed, std::uint64_t sample, bool training, Extent net_input,
                   float* dst) {
  if (options.flat) {
    copy_planes(image_pixels, image, dst);
    if (options.byte_values) take_byte_values(options, image, {}, true, dst);
    return;
  }
  thread_local std::vector<std::uint8_t> scratch;
  const Pixels src = convert_channels(image_pixels, image, net_input.c, scratch);
  const Variation variation = choose_variation(options, seed, sample, training);
  const float scale = choose_scale(image, net_input, options, variation.zoom, variation.aspect);

  Place place{.mirror = variation.mirror};
  if (scale == 1 && variation.degrees == 0 && variation.aspect == 1) {
    const auto offset = [&](float share, int room) {
      if (options.own_size && !training) return room / 2;
      return std::min(room, static_cast<int>(share * static_cast<float>(room + 1)));
    };
    place.y = offset(variation.slack_y, image.h - net_input.h);
    place.x = offset(variation.slack_x, image.w - net_input.w);
    copy_window(src, image, net_input, place.y, place.x, dst);
  } else {
    const Window window(image, net_input, scale, variation);
    if (variation.degrees == 0)
      sample_upright(src, window, dst);
    else if (image.c == 3)
      sample_rotated<3>(src, window, variation.degrees, dst);
    else
      sample_rotated<0>(src, window, variation.degrees, dst);
  }
  if (variation.mirror) mirror_rows(dst, net_input);
  shift_colours({dst, net_input.count()}, net_input.c, variation.colours);
  if (options.byte_values) take_byte_values(options, net_input, place, false, dst);
}

void shift_colours(std::span<float> pixels, int channels, const ColourShift& shift) {
  if (shift == ColourShift{}) return;
  if (channels != 3) {
    for (float& value : pixels) value = std::min(1.0f, value * shift.exposure);
    return;
  }
  const ColourShift by = shift;
  float* const values = pixels.data();
  const std::size_t count = pixels.size() / 3;
  for (std::size_t i = 0; i < count; ++i) shift_pixel(values + 3 * i, by);
}

}  // namespace omni
