// One pass over a test set: mean loss and accuracy, or the outputs for every image.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "layers/net.hpp"
#include "runtime/data/data_feed.hpp"

namespace omni {

// Sums over images; read back from the loss layer's per-slice metrics, in slice order.
struct Tally {
  double loss = 0, top1 = 0, top5 = 0, images = 0;

  void add(const BatchSlot& slot);  // waits for the mini-batch's forward pass
  void add(const Tally& other);
  double mean_loss() const { return images > 0 ? loss / images : 0; }
  double accuracy() const { return images > 0 ? top1 / images : 0; }
  double top5_accuracy() const { return images > 0 ? top5 / images : 0; }
};

// `use(index, outputs)`, if any, is called for each image in order; its error ends the pass. Images
// are still decoded ahead, but no mini-batch is computed ahead.
using UseOutputs = std::function<Status(std::size_t index, std::span<const float> outputs)>;
Result<Tally> evaluate(Net& net, DataFeed& test, std::uint64_t seed, const UseOutputs& use = {});

// Reads and decodes what an evaluation would, and computes nothing. `on_batch` is called after each
// mini-batch of this rank.
Status read_all(DataFeed& test, const Slices& slices, const std::function<void()>& on_batch);

}  // namespace omni
