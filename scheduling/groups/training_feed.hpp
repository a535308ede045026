// The mini-batches of a training, in order: decoded some ahead of those that compute.
#pragma once

#include <cstdint>

#include "layers/layer.hpp"
#include "runtime/data/data_feed.hpp"

namespace omni {

class TrainingFeed {
 public:
  static constexpr int kPrefetched = 2;  // decoded mini-batches that wait

  // Mini-batches from number `first` up to `end`; decoding past it would be work for nothing.
  TrainingFeed(DataFeed& feed, std::uint64_t seed, std::uint64_t first, std::uint64_t end);

  // What layers need to know about a mini-batch. Asked for in ascending order.
  Step step(std::uint64_t number);
  const BatchSlot& slot(std::uint64_t number) { return feed_.slot(number); }
  void release(std::uint64_t number) { feed_.release(number); }
  void release_from(std::uint64_t number);  // all that wait, when the training stops there

  std::size_t images() const { return feed_.dataset().size(); }

 private:
  void record(std::uint64_t number);
  DataFeed& feed_;
  std::uint64_t seed_, first_, end_;
  std::uint64_t submitted_;       // mini-batches whose decode is submitted
  std::uint64_t decoded_before_;  // by the feed, for others
};

}  // namespace omni
