// Inspection of a net on a few mini-batches: whether each layer's output depends on the sample, and
// how large the gradients of its parameters are. And losses of the shared model as it is now.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/net.hpp"
#include "runtime/data/data_feed.hpp"

namespace omni {

struct InspectedLayer {
  const Layer* layer = nullptr;  // null: the data
  std::vector<float> first;      // its output for the first sample
  double largest = 0;            // output of all, without its sign
  double difference = 0;  // the largest from the first sample's; infinite: not all are finite
  bool learns = false;    // it has parameters that do
  // Lengths of these parameters, and of their gradient in the mean over a mini-batch: the largest
  // of the mini-batches. Where they are updated in backward, the gradient is at most as long.
  double parameters = 0, gradient = 0;
  double values = 0;  // number of these parameters

  // Outputs differ by less than rounding errors, or not at all.
  bool is_same() const { return difference <= 1e-6 * largest; }
};

struct Inspection {
  std::uint64_t samples = 0;  // whose outputs were compared
  InspectedLayer data;
  std::vector<InspectedLayer> layers;

  bool all_alike() const { return layers.back().is_same(); }
  bool finds_something() const;  // a layer with one output for all samples, or without a gradient
};

// No task may be under way. Layers, optimizer state and statistics are unchanged afterwards, bit by
// bit. The mini-batches begin with `first_sample`; several are used only if the first one shows a
// problem. Mini-batches that the feed does not hold use a free slot.
Result<Inspection> inspect(Net& net, DataFeed& feed, std::uint64_t seed,
                           std::uint64_t first_sample);

struct Probe {
  std::vector<double> losses{};  // by mini-batch
  double spread = 0;             // how much outputs differ between images: of any class, at most
};
// Forward passes over so many mini-batches from a sample on, as in training. No task may be under
// way. Changes nothing of the net.
Result<Probe> probe(Net& net, DataFeed& train, std::uint64_t seed, std::uint64_t first_sample,
                    std::uint64_t count);

}  // namespace omni
