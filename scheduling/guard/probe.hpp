// Losses of the shared model as it is now: forward passes over mini-batches, as in training.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/net.hpp"
#include "runtime/data/data_feed.hpp"

namespace omni {

struct Probe {
  std::vector<double> losses{};  // by mini-batch
  double spread = 0;             // how much outputs differ between images: of any class, at most
};
// Of so many mini-batches from a sample on. No task may be under way. Changes nothing of the net.
Result<Probe> probe(Net& net, DataFeed& train, std::uint64_t seed, std::uint64_t first_sample,
                    std::uint64_t count);

}  // namespace omni
