// Fills one mini-batch (or a slice of it) from a dataset. Runs inside StarPU CPU tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/bf16/bf16.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/extent.hpp"
#include "runtime/result.hpp"

namespace omni {

// Image i of the batch is dataset image indices[i]; its augmentation is that of training sample
// first_sample + i. `images` receives indices.size() * net_input.count() values: T is float, Bf16
// (rounded), or std::uint8_t: value * 255, a fourth of the memory until the images are needed, and
// exact where keeps_bytes() says so.
template <class T>
Status fill_batch(const Dataset& dataset, std::span<const std::size_t> indices,
                  std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                  bool training, Extent net_input, T* images);

}  // namespace omni
