// This codelet turns images with channels last into planes, one per channel, or back. Files of
// nets count the values of a flattened image in that order, and so do the labels of a loss.
#pragma once

#include <cstdint>

#include "runtime/tasks/kernel.hpp"

namespace omni {

struct PlanesArgs {
  int n = 0, pixels = 0, c = 0;
  bool to_planes = true;  // false: back
};

namespace reference {

template <class T>
void planes(const PlanesArgs& args, const T* src, T* dst) {
  for (std::int64_t image = 0; image < args.n; ++image)
    for (int pixel = 0; pixel < args.pixels; ++pixel)
      for (int k = 0; k < args.c; ++k) {
        const std::int64_t last = (image * args.pixels + pixel) * args.c + k;
        const std::int64_t first = (image * args.c + k) * args.pixels + pixel;
        if (args.to_planes)
          dst[first] = src[last];
        else
          dst[last] = src[first];
      }
}

}  // namespace reference

OMNI_CODELET(PlanesArgs, planes);  // {src R, dst W}

}  // namespace omni
