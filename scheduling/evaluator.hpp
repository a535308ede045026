// One pass over a test set: mean loss and accuracy.
#pragma once

#include <cstdint>

#include "layers/net.hpp"
#include "runtime/data/data_feed.hpp"

namespace omni {

// Sums over images; read back from the loss layer's per-slice metrics, in slice order.
struct Tally {
  double loss = 0, top1 = 0, top5 = 0, images = 0;

  void add(const BatchSlot& slot);  // waits for the mini-batch's forward pass
  double mean_loss() const { return images > 0 ? loss / images : 0; }
  double accuracy() const { return images > 0 ? top1 / images : 0; }
  double top5_accuracy() const { return images > 0 ? top5 / images : 0; }
};

Result<Tally> evaluate(Net& net, DataFeed& test, std::uint64_t seed);

}  // namespace omni
