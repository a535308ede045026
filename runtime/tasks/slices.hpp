// A mini-batch cut into slices, and the tensors that carry one mini-batch through the net.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/tasks/tensor.hpp"

namespace omni {

// With several ranks, each computes a share of the mini-batch and has only that share's slices.
struct Slices {
  std::vector<int> sizes;      // images per slice
  std::vector<int> offsets;    // first image of each slice within the share
  std::vector<int> all_sizes;  // of all ranks
  std::vector<int> owners{};   // the rank that computes it, of all_sizes; counted from 0
  int rank = 0, ranks = 1;
  int before = 0;      // images of the ranks before this one
  int first = 0;       // slices of them
  bool alike = false;  // several ranks are to have the bits that one would have

  static Slices cut(int batch, int slice_size) {
    Slices slices;
    for (int first = 0; first < batch; first += slice_size) {
      slices.offsets.push_back(first);
      slices.sizes.push_back(std::min(slice_size, batch - first));
    }
    slices.all_sizes = slices.sizes;
    return slices;
  }
  // The share of a rank, cut into slices. Shares differ by at most one image.
  static Slices cut_share(int batch, int slice_size, int rank, int ranks) {
    Slices share;
    std::vector<int> all;
    for (int each = 0; each < ranks; ++each) {
      const auto from = static_cast<int>(std::int64_t{batch} * each / ranks);
      const auto to = static_cast<int>(std::int64_t{batch} * (each + 1) / ranks);
      const int slices_before = static_cast<int>(all.size());
      Slices own = cut(to - from, slice_size);
      all.insert(all.end(), own.sizes.begin(), own.sizes.end());
      share.owners.insert(share.owners.end(), own.sizes.size(), each);
      if (each != rank) continue;
      share.sizes = std::move(own.sizes);
      share.offsets = std::move(own.offsets);
      share.before = from;
      share.first = slices_before;
    }
    share.rank = rank;
    share.ranks = ranks;
    share.all_sizes = std::move(all);
    return share;
  }
  // All of the mini-batch, for one rank; `owners` stay.
  Slices whole() const {
    Slices all;
    for (const int images : all_sizes) {
      all.offsets.push_back(all.images());
      all.sizes.push_back(images);
    }
    all.all_sizes = all_sizes;
    all.owners = owners;
    return all;
  }
  int count() const { return static_cast<int>(sizes.size()); }
  int images() const { return sizes.empty() ? 0 : offsets.back() + sizes.back(); }
  int images_of_all() const { return std::accumulate(all_sizes.begin(), all_sizes.end(), 0); }
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
