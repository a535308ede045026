// Images as a data set stores them: in another size, and in grey or in colours.
#pragma once

#include "runtime/data/images/image.hpp"

namespace omni {

// Resizes by bilinear interpolation between the centres of pixels, as OpenCV does for Caffe. The
// aspect ratio is not kept.
Image resized(const Image& image, int h, int w);
// Grey is 0.299 red + 0.587 green + 0.114 blue. `channels` is 1 or 3, and so is the image's number.
Image with_channels(const Image& image, int channels);

}  // namespace omni
