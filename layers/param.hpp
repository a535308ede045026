// A named parameter (or running statistic) of a layer: where it lives, how it starts, how files
// store it.
#pragma once

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
  bool connected = false;           // stored transposed by some old files
  bool by_slice = false;            // a task per slice adds to its gradient, not one per mini-batch
  bool can_overwrite_diff = false;  // its gradient: by each task that else adds to it
  bool updated_in_backward = false;  // set by LayerBuilder::param
  bool overwrites_diff =
      false;  // its gradient, for an update, which need not clear it; set likewise

  Tensor* value = nullptr;    // what the layers read: the master or the replica
  Tensor* master = nullptr;   // what updates change and files hold
  Tensor* replica = nullptr;  // a compute group's copy of the master; null: it has none
  Tensor* diff = nullptr;     // training only; null: it is updated in backward
  // Gradients of some of the slices, so that they need not wait for each other to be added up; the
  // update adds them to `diff` first. None where few workers would meet there.
  std::vector<Tensor*> partial_diffs{};
  int slices_per_sum = 0;  // that follow each other; 0: slices take turns
  // Every rank has the gradient of the whole mini-batch, and makes the same step.
  bool whole_on_each_rank = false;
  Tensor* velocity = nullptr;     // training only; of Adam: the mean gradient
  Tensor* mean_square = nullptr;  // of Adam, of the gradient
  // Of all groups together, where they meet (codelets/elementwise/meeting.hpp).
  Tensor* change = nullptr;           // what the groups contributed since the last meeting
  Tensor* centre_velocity = nullptr;  // of the master, as it moves at meetings

  // What the slice adds its gradient to.
  const Tensor& gradient(int slice) const {
    const auto number = static_cast<std::size_t>(slice);
    const std::size_t which = slices_per_sum > 0 ? number / static_cast<std::size_t>(slices_per_sum)
                                                 : number % (partial_diffs.size() + 1);
    return which == 0 ? *diff : *partial_diffs[which - 1];
  }
};

}  // namespace omni
