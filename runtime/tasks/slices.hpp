// This header cuts a mini-batch into slices, and has the tensors that carry a mini-batch through
// the net.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/tasks/shares.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

// A Slices object has the slices of a mini-batch that a rank computes. Each of several ranks has a
// share of the mini-batch, which is cut into slices. "All slices" are those of all ranks, in the
// order of the ranks.
struct Slices {
  std::vector<int> sizes;      // images in each slice of this rank
  std::vector<int> offsets;    // by slice of this rank: its first image, counted within the share
  std::vector<int> all_sizes;  // images in each of all slices
  std::vector<int> owners{};   // the rank that computes each of all slices; empty: the only one
  int rank = 0, ranks = 1;
  int before = 0;            // number of images in the shares of lower ranks
  int first = 0;             // number of slices in the shares of lower ranks
  bool as_one_rank = false;  // true: the results must have the same bits as those of one rank

  static Slices cut(int batch, int slice_size) {
    Slices slices;
    for (int first = 0; first < batch; first += slice_size) {
      slices.offsets.push_back(first);
      slices.sizes.push_back(std::min(slice_size, batch - first));
    }
    slices.all_sizes = slices.sizes;
    return slices;
  }
  // Cuts the share of a rank. The share of a rank `other` begins with the image begin(other), and
  // ends where the next share begins. Its slices have size(other) images, the last one may have
  // fewer.
  template <class Begin, class Size>
  static Slices cut_share(int rank, int ranks, Begin begin, Size size) {
    Slices share;
    std::vector<int> all;
    for (int other = 0; other < ranks; ++other) {
      const int from = begin(other), to = begin(other + 1);
      const int slices_before = static_cast<int>(all.size());
      Slices own = cut(to - from, size(other));
      all.insert(all.end(), own.sizes.begin(), own.sizes.end());
      share.owners.insert(share.owners.end(), own.sizes.size(), other);
      if (other != rank) continue;
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
  // Returns all slices as those of one rank; `owners` stay as they are.
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

// A slice has these metrics: the sum of losses, the numbers of correct top-1 and top-5 predictions,
// and the number of images with a label. In training the auxiliary losses follow.
inline constexpr std::size_t kMetrics = 4;

// This label marks a place of a mini-batch without an image: beyond the end of a test set, or of a
// damaged test image. Such a place adds no loss and does not count.
inline constexpr int kNoLabel = -1;

// A BatchSlot has the tensors of one mini-batch, by slice.
struct BatchSlot {
  std::vector<Tensor*> images;   // channels last; f32 or bf16, as the net takes them
  std::vector<Tensor*> labels;   // i32
  std::vector<Tensor*> metrics;  // f32[kMetrics] or more, which the loss layer writes
};

}  // namespace omni
