// These operations put a slice of images together from parts. Parts are pixels with 8 bits per
// value, also on their way to a GPU, or floats. The slice has the values that the net reads: f32 or
// bf16.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/tasks/kernel.hpp"

namespace omni {

struct UnpackArgs {
  static constexpr int kMostParts = 15;  // tensors; a task may have kMostBuffers, one for the slice

  int images = 0, images_per_part = 0;
  int skipped = 0;  // images at the beginning of the first part that are not of the slice
  std::int64_t image_values = 0;                  // per image
  std::atomic<std::uint64_t>* counter = nullptr;  // counts the slices that are done

  // Calls use(buffer, first value in the buffer, number of values) for each part.
  void for_each_part(auto use) const {
    std::size_t buffer = 1;
    for (int done = 0, from = skipped; done < images; from = 0, ++buffer) {
      const int count = std::min(images_per_part - from, images - done);
      use(buffer, from * image_values, count * image_values);
      done += count;
    }
  }
};

OMNI_CODELET(UnpackArgs, unpack_batch);     // {images W, pixels of a part R, ...}
extern Codelet<UnpackArgs> gather_samples;  // {images W, floats of a part R, ...}

}  // namespace omni
