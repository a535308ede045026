// Unpacks pixels to the values that the net reads. Pixels travel with 8 bits per value, also to a
// GPU; values are f32 or bf16.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/tasks/kernel.hpp"

namespace omni {

// A slice of images comes in parts, with a tensor each.
struct UnpackArgs {
  static constexpr int kMostParts = 15;  // StarPU lets a task have one tensor more

  int images = 0, images_per_part = 0;
  std::int64_t image_values = 0;                  // of one image
  std::atomic<std::uint64_t>* counter = nullptr;  // of slices that are done
};

OMNI_CODELET(UnpackArgs, unpack_batch);  // {images W, pixels of a part R, ...}

}  // namespace omni
