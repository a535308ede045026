// This header changes the size and the number of channels of an image.
#pragma once

#include "runtime/data/images/image.hpp"

namespace omni {

// Resizes by bilinear interpolation between the centres of pixels, as OpenCV does for Caffe. The
// aspect ratio is not kept.
Image resized(const Image& image, int h, int w);
// Grey is 0.299 red + 0.587 green + 0.114 blue. `channels` and the image's channels are 1 or 3.
Image with_channels(const Image& image, int channels);

}  // namespace omni
