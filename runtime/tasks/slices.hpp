// A mini-batch cut into slices, and the tensors that carry one mini-batch through the net.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/tasks/tensor.hpp"

namespace omni {

struct Slices {
  std::vector<int> sizes;    // images per slice
  std::vector<int> offsets;  // first image of each slice within the mini-batch

  static Slices cut(int batch, int slice_size) {
    Slices slices;
    for (int first = 0; first < batch; first += slice_size) {
      slices.offsets.push_back(first);
      slices.sizes.push_back(std::min(slice_size, batch - first));
    }
    return slices;
  }
  int count() const { return static_cast<int>(sizes.size()); }
  int images() const { return sizes.empty() ? 0 : offsets.back() + sizes.back(); }
};

// loss sum, correct top-1, correct top-5, images counted
inline constexpr std::size_t kMetrics = 4;

// Label of a place in a mini-batch that holds no image (the end of a test set): neither loss nor
// count.
inline constexpr int kNoLabel = -1;

// One mini-batch: decoded images, labels, and what the loss layer says of them; each by slice.
struct BatchSlot {
  std::vector<Tensor*> images;   // channels last, of the net's values
  std::vector<Tensor*> labels;   // i32
  std::vector<Tensor*> metrics;  // f32[kMetrics]
};

}  // namespace omni
