// inspect() runs a net on a few mini-batches. It measures whether each layer's output depends on
// the sample, and how large the gradients of its parameters are. probe() measures the model's loss.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/net.hpp"
#include "runtime/data/feed/data_feed.hpp"

namespace omni {

struct InspectedLayer {
  const Layer* layer = nullptr;  // null: the data
  std::vector<float> first;      // the output for the first sample
  double largest = 0;            // the largest absolute value of any output
  double difference = 0;  // the largest distance from `first`; infinite: an output is not finite
  bool learns = false;    // the layer has parameters that are trained
  double parameters = 0;  // norm of the trained parameters
  // `gradient` is the norm of the parameters' mean gradient over a mini-batch, the largest of all
  // mini-batches. For gradients in several parts, and for parameters that are updated in backward,
  // it is an upper bound.
  double gradient = 0;
  double values = 0;  // number of trained parameters

  // Returns true if the outputs of different samples do not differ by more than rounding errors.
  bool is_same() const { return difference <= 1e-6 * largest; }
};

struct Inspection {
  std::uint64_t samples = 0;  // number of samples whose outputs were compared
  InspectedLayer data;
  std::vector<InspectedLayer> layers;

  bool all_alike() const { return layers.back().is_same(); }
  // Returns true if a layer has the same output for all samples, or no gradient.
  bool finds_something() const;
};

// Inspects the net; no task may be under way. Parameters, optimizer state and statistics are
// unchanged afterwards, bit by bit. The mini-batches begin with `first_sample`; more than one is
// used only while they show a problem. A mini-batch that the feed does not hold uses a free slot.
Result<Inspection> inspect(Net& net, DataFeed& feed, std::uint64_t seed,
                           std::uint64_t first_sample);

struct Probe {
  std::vector<double> losses{};  // by mini-batch
  double spread = 0;             // the largest difference of one output value between images
};
// Runs forward passes over `count` mini-batches from `first_sample` on, as in training, and returns
// what all ranks found. No task may be under way. The net is unchanged afterwards. Collective:
// after an error that only this rank has, the job ends.
Result<Probe> probe(Net& net, DataFeed& train, std::uint64_t seed, std::uint64_t first_sample,
                    std::uint64_t count);

}  // namespace omni
