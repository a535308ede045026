// These functions evaluate a net in one pass over a test set. The result is the loss and accuracy,
// and if wanted the outputs for every image.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "layers/net.hpp"
#include "runtime/data/feed/data_feed.hpp"

namespace omni {

// A Tally has sums over images. They are added up from the loss layer's metrics, in the order of
// the slices.
struct Tally {
  double loss = 0, top1 = 0, top5 = 0, images = 0;
  std::vector<double> auxiliary{};  // losses, which are parts of `loss`; in training only

  void add(const BatchSlot& slot);  // waits for the mini-batch's forward pass
  void add(const Tally& other);
  double mean_loss() const { return images > 0 ? loss / images : 0; }
  std::vector<double> auxiliary_losses() const;  // means
  double accuracy() const { return images > 0 ? top1 / images : 0; }
  double top5_accuracy() const { return images > 0 ? top5 / images : 0; }
};

// Turns divides the mini-batches of a forward pass among ranks. Ranks that share a mini-batch form
// a set, and the sets take turns. If the size of mini-batches or of sets differs between ranks, the
// first set takes all.
struct Turns {
  Turns(int batch, const Slices& slices);  // collective
  // Returns the number of the mini-batch that this rank takes at its turn `number`.
  std::uint64_t batch_at(std::uint64_t number) const { return number * takers + taker; }
  // Returns how many of `all` mini-batches this rank takes, if those beyond the end count, too.
  std::uint64_t count(std::uint64_t all) const { return takes ? (all + takers - 1) / takers : 0; }

  std::uint64_t takers = 1, taker = 0;
  bool takes = true;
};

// UseOutputs receives the outputs of one image. If it returns an error, the evaluation ends.
using UseOutputs = std::function<Status(std::size_t index, std::span<const float> outputs)>;
// Computes the test set's loss and accuracy, summed over all ranks. `use`, if given, gets the
// outputs of this rank's images in order. No mini-batch is then computed ahead, but images are
// still decoded ahead.
Result<Tally> evaluate(Net& net, DataFeed& test, std::uint64_t seed, const UseOutputs& use = {});

// Reads and decodes the images of an evaluation without computing it. It calls `on_batch` after
// each mini-batch of this rank.
Status read_all(DataFeed& test, const Slices& slices, const std::function<void()>& on_batch);

}  // namespace omni
