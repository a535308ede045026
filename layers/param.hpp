// A named parameter (or running statistic) of a layer: where it lives, how it starts, how files
// store it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tasks/tensor.hpp"

namespace omni {

struct Filler {
  enum class Kind { constant, uniform, normal } kind = Kind::constant;
  float scale = 0;  // the constant, the half width, the standard deviation
};

struct Param {
  std::string name;                 // "03.convolutional.weights"
  std::vector<std::int64_t> shape;  // ours: channels last
  Filler filler;
  bool trainable = true;  // false: running statistics
  bool decays = false;
  float rate = 1;               // multiplies the learning rate
  bool load = true;             // false: dontload
  bool in_weights_file = true;  // of Darknet

  // Darknet's files are channels first. A (rows, inner) matrix whose columns are (spatial,
  // channels) here and (channels, spatial) there; spatial == 1 or channels == 1 means the same
  // order in both.
  std::int64_t rows = 1, spatial = 1, channels = 1;
  bool connected = false;  // stored transposed by some old files
  bool divisible = false;  // ranks may divide it: choose_connected_blocks
  // Each rank computes so many parts whole, and steps them; the last one has the rest. 0: all do.
  int parts_per_rank = 0;
  bool by_slice = false;             // its gradient is the sum over one task per slice
  bool can_overwrite_diff = false;   // its gradient task can also write instead of adding
  bool in_products = false;          // its layer reads Tensor::for_products()
  bool updated_in_backward = false;  // set by LayerBuilder::param
  // The gradient task writes, so the update need not clear the gradient; set by
  // LayerBuilder::param.
  bool overwrites_diff = false;

  Tensor* value = nullptr;    // what the layers read: the master or the replica
  Tensor* master = nullptr;   // changed by updates, stored in files
  Tensor* replica = nullptr;  // a compute group's copy of the master; null: it has none
  Tensor* diff = nullptr;  // the gradient, in training only; null: a backward task makes the step
  // Partial sums of the gradient, so that slices wait less for each other; the update first adds
  // them to `diff`. None where few workers compete for the sum.
  std::vector<Tensor*> partial_diffs{};
  int slices_per_sum = 0;  // consecutive slices; 0: slices go to the sums in turn
  // Every rank computes the gradient of the whole mini-batch, and makes the same step.
  bool whole_on_each_rank = false;
  Tensor* velocity = nullptr;     // training only; with Adam: the mean gradient
  Tensor* mean_square = nullptr;  // with Adam: of the gradient
  // For strategies with meetings (codelets/elementwise/meeting.hpp).
  Tensor* change = nullptr;           // sum of the groups' contributions since the last meeting
  Tensor* centre_velocity = nullptr;  // of the master, which moves at meetings

  // The rank that computes a part, where not all do.
  int rank_of(std::size_t part) const {
    return parts_per_rank == 0 ? 0 : static_cast<int>(part) / parts_per_rank;
  }
  int parts_of(int rank) const {
    const auto parts = static_cast<int>(master->parts());
    return parts_per_rank == 0 ? parts
                               : std::clamp(parts - rank * parts_per_rank, 0, parts_per_rank);
  }
  // The sum to which the slice adds its gradient.
  const Tensor& gradient(int slice) const {
    const auto number = static_cast<std::size_t>(slice);
    const std::size_t which = slices_per_sum > 0 ? number / static_cast<std::size_t>(slices_per_sum)
                                                 : number % (partial_diffs.size() + 1);
    return which == 0 ? *diff : *partial_diffs[which - 1];
  }
};

}  // namespace omni
