// Augmentation turns a stored 8-bit image into floats of the net's extent, channels last. A float
// is in [0, 1]: value / 255, as in Darknet. Training varies the image; testing takes its centre.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/images/image.hpp"
#include "runtime/extent.hpp"
#include "runtime/result.hpp"

namespace omni {

// With ByteValues the net reads (byte - mean of the channel) * scale instead of byte / 255.
struct ByteValues {
  std::array<float, 3> mean{};  // by channel of the net
  float scale = 1;
  bool blue_first = false;  // colours come as blue, green and red
  bool operator==(const ByteValues&) const = default;
};

// A MeanImage has for each value of an image the mean over many images. Channels are last, in the
// net's order. It has the size of the images from which windows are cut; image files of all sizes
// are resized to this size.
struct MeanImage {
  Extent extent;
  std::vector<float> values;
  bool operator==(const MeanImage&) const = default;
};

// A SharedMeanImage is a MeanImage or null. Two of them are equal if their values are equal, even
// if they are different objects.
struct SharedMeanImage : std::shared_ptr<const MeanImage> {
  using shared_ptr::shared_ptr;
  SharedMeanImage(std::shared_ptr<const MeanImage> image) : shared_ptr(std::move(image)) {}
  bool operator==(const SharedMeanImage& other) const {
    return get() == other.get() || (get() != nullptr && other.get() != nullptr && **this == *other);
  }
};

struct InputPart;

// A vector of an incomplete type, whose members are defined when it is complete. Clang refuses
// std::vector itself there.
struct InputParts : std::vector<InputPart> {
  using vector::vector;
  InputParts();
  InputParts(std::vector<InputPart> parts);
  InputParts(const InputParts&);
  InputParts(InputParts&&) noexcept;
  InputParts& operator=(const InputParts&);
  InputParts& operator=(InputParts&&) noexcept;
  ~InputParts();
  bool operator==(const InputParts&) const;
};

// AugmentOptions have Darknet's keys, with Darknet's meanings. Two defaults differ: Darknet always
// mirrors and zooms by up to 2. By default this program leaves images as they are, because a
// mirrored digit is another digit.
struct AugmentOptions {
  // The shorter side of the image is resized to a size drawn from [min_crop, max_crop], then a
  // window of the net's extent is cut out. 0: not given. If only one is given, the other has
  // Darknet's default: min_crop the net's longer side, max_crop twice that.
  // If neither is given, the window is cut from the image at its own size. With all_sizes the image
  // is instead made as small as still covers the net.
  // An image that would not cover the net is enlarged until it does.
  int min_crop = 0, max_crop = 0;
  bool all_sizes = false;  // true: the data set's images differ in size; not set by a key
  // True: windows are cut from images at their own size, also with all_sizes, and images that do
  // not cover the net are refused. The place of a test's window is rounded down, as Caffe does.
  bool own_size = false;
  bool center = false;  // true: training windows are cut from the centre, without rotation or zoom
  float angle = 0;      // degrees; the angle is drawn from [-angle, angle]
  // Each factor is drawn from [1, x], and inverted with a probability of one half. x is positive.
  float aspect = 1, saturation = 1, exposure = 1;
  float hue = 0;      // share of the colour circle; the shift is drawn from [-hue, hue]
  bool flip = false;  // true: an image is mirrored with a probability of one half
  // True: the net takes vectors, {1, 1, values}. They have an image's values in Darknet's order,
  // channel by channel. Only byte_values and mean_image have an effect then.
  bool flat = false;
  std::optional<ByteValues> byte_values{};  // has no effect on samples that are stored as floats
  SharedMeanImage mean_image{};             // replaces byte_values->mean; null: does not
  // The inputs of a net that has several; empty: it has one. A sample is the values of all inputs,
  // one behind the other. Then `flat` is true, and the other options have no effect.
  InputParts parts{};
  bool operator==(const AugmentOptions&) const;
};

// An InputPart is one input of a net that has several.
struct InputPart {
  std::string name;
  Extent extent;
  AugmentOptions augment{};
  bool labels = false;  // its data have the labels; true for one input
  bool operator==(const InputPart&) const = default;
};
inline bool AugmentOptions::operator==(const AugmentOptions&) const = default;
inline InputParts::InputParts() = default;
inline InputParts::InputParts(std::vector<InputPart> parts) : vector(std::move(parts)) {}
inline InputParts::InputParts(const InputParts&) = default;
inline InputParts::InputParts(InputParts&&) noexcept = default;
inline InputParts& InputParts::operator=(const InputParts&) = default;
inline InputParts& InputParts::operator=(InputParts&&) noexcept = default;
inline InputParts::~InputParts() = default;
inline bool InputParts::operator==(const InputParts& other) const {
  return std::ranges::equal(*this, other);
}

// Fails if the net cannot take images of this extent (h and w 0: of all sizes; each is checked when
// it is read). The net may have the image's channels, or grey where the image has colours, or the
// reverse. A flat net must have as many values as the image. Errors name `where`.
Status check_input(const AugmentOptions& options, Extent image, Extent net_input,
                   const std::string& where);

// Returns the size down to which a decoder may reduce an image for prepare_image().
LeastSize least_size(const AugmentOptions& options, std::uint64_t seed, std::uint64_t sample,
                     bool training, Extent net_input);

// Returns whether prepare_image() only cuts, mirrors and converts channels of images of this
// extent, whatever is drawn. Then all its values are bytes / 255.
bool keeps_bytes(const AugmentOptions& options, Extent image, bool training, Extent net_input);

// `image_pixels` holds image.count() values, `dst` receives net_input.count(). What training draws
// depends only on seed and sample. Each option has its own draws, so switching one on does not
// change the others. Requires arguments that check_input() accepts.
void prepare_image(std::span<const std::uint8_t> image_pixels, Extent image,
                   const AugmentOptions& options, std::uint64_t seed, std::uint64_t sample,
                   bool training, Extent net_input, float* dst);

// The following functions change hue, saturation and exposure in HSV colours, as Darknet does.

struct ColourShift {
  float hue = 0;                       // is added; share of the colour circle
  float saturation = 1, exposure = 1;  // factors
  bool operator==(const ColourShift&) const = default;
};

// Values are in [0, 1] before and after. If there are not three channels, only the exposure
// changes.
void shift_colours(std::span<float> pixels, int channels, const ColourShift& shift);

}  // namespace omni
