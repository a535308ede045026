// The operation that unpacks pixels to the values that the net reads. Pixels have 8 bits per value,
// on their way to a GPU, too; values are f32 or bf16.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/tasks/kernel.hpp"

namespace omni {

// The pixels of a slice of images lie in several tensors.
struct UnpackArgs {
  static constexpr int kMostParts = 15;  // StarPU lets a task have one tensor more

  int images = 0, images_per_part = 0;
  std::int64_t image_values = 0;                  // per image
  std::atomic<std::uint64_t>* counter = nullptr;  // counts the slices that are done
};

OMNI_CODELET(UnpackArgs, unpack_batch);  // {images W, pixels of a part R, ...}

}  // namespace omni
