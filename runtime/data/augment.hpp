// From a stored 8-bit image to what the net reads: floats in [0, 1] (Darknet's convention, value /
// 255), channels last, in the net's extent. Training varies the image; testing takes its centre.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/data/images/image.hpp"
#include "runtime/extent.hpp"
#include "runtime/result.hpp"

namespace omni {

// Darknet's keys and meanings. Two defaults differ from Darknet, which always mirrors and always
// zooms by up to 2: here nothing happens that was not asked for, because a mirrored digit is
// another digit.
struct AugmentOptions {
  // The shorter side of the image is resized to a size drawn from [min_crop, max_crop], then a
  // window of the net's extent is cut out. 0: not given. One alone brings Darknet's default of the
  // other, the net's side or twice that. Neither: images larger than the net are cut at their own
  // size, or, if they come in all sizes, made as small as still covers the net. In all cases the
  // image is enlarged where it would not cover the net.
  int min_crop = 0, max_crop = 0;
  bool all_sizes = false;  // whether images differ in size; no key of the net
  bool center = false;     // cut training windows from the centre, without rotation and zoom
  float angle = 0;         // degrees, drawn from [-angle, angle]
  // Factors drawn from [1, x], or 1 / that, with equal chance; must be positive.
  float aspect = 1, saturation = 1, exposure = 1;
  float hue = 0;      // share of the colour circle, drawn from [-hue, hue]
  bool flip = false;  // mirror every second image, by chance
  // The net takes vectors, {1, 1, values}: those of an image in Darknet's order, channel by
  // channel. All else has no effect.
  bool flat = false;
};

// Whether the net can take images of that extent (h and w 0: of all sizes): of equal channels, grey
// as colour or colour as grey; or, flat, of as many values. Errors name `where`.
Status check_input(const AugmentOptions& options, Extent image, Extent net_input,
                   const std::string& where);

// The smallest size at which prepare_image needs the image; a decoder may reduce the image to it.
LeastSize least_size(const AugmentOptions& options, std::uint64_t seed, std::uint64_t sample,
                     bool training, Extent net_input);

// Whether prepare_image only cuts, mirrors and converts channels, whatever is drawn, of an image of
// that extent: what it gives are then bytes / 255, nothing between them.
bool keeps_bytes(const AugmentOptions& options, Extent image, bool training, Extent net_input);

// `image_pixels` holds image.count() values, `dst` receives net_input.count(). What training draws
// depends on (seed, sample) only; each option has its own draws, so that switching one on leaves
// the others as they were. Requires check_input().
void prepare_image(std::span<const std::uint8_t> image_pixels, Extent image,
                   const AugmentOptions& options, std::uint64_t seed, std::uint64_t sample,
                   bool training, Extent net_input, float* dst);

// ---- changes of hue, saturation and exposure, by way of the HSV cone as in Darknet ----

struct ColourShift {
  float hue = 0;  // added, as a share of the colour circle
  float saturation = 1, exposure = 1;
  bool operator==(const ColourShift&) const = default;
};

// Values in [0, 1] before and after. Without three channels there is no hue and no saturation: only
// the exposure changes.
void shift_colours(std::span<float> pixels, int channels, const ColourShift& shift);

}  // namespace omni
