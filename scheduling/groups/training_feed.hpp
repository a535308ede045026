// The mini-batches of a training, identified by their first samples and decoded ahead.
#pragma once

#include <cstdint>

#include "layers/layer.hpp"
#include "runtime/data/data_feed.hpp"

namespace omni {

class TrainingFeed {
 public:
  static constexpr int kPrefetched = 2;  // decoded mini-batches that wait

  // Samples from `first` to `end`, beyond which nothing is decoded. in_sequence: passes take the
  // mini-batches one after another; else a pass of an update is decoded together with the one
  // before. `turns`: which of so many mini-batches in a row this rank takes; empty: all.
  TrainingFeed(DataFeed& feed, std::uint64_t seed, std::uint64_t first, std::uint64_t end,
               bool in_sequence = true, std::vector<bool> turns = {});

  // What layers need to know about a pass, whose update ends at `update_end`.
  Step step(std::uint64_t first_sample, std::uint64_t update_end);
  const BatchSlot& slot(std::uint64_t first_sample) { return feed_.slot(first_sample); }
  void release(std::uint64_t first_sample) { feed_.release(first_sample); }
  void release_from(std::uint64_t sample);  // all that wait, when the training stops there

  // For use of the feed by others while no task is under way.
  template <class Use>
  Status lend(const Use& use) {
    const std::uint64_t before = feed_.decoded();
    Status used = use(feed_);
    decoded_before_ += feed_.decoded() - before;
    return used;
  }

  std::uint64_t seed() const { return seed_; }
  std::size_t images() const { return feed_.dataset().size(); }
  std::uint64_t batch() const { return feed_.batch(); }

 private:
  bool is_taken(std::uint64_t sample) const;
  void record(std::uint64_t first_sample);
  DataFeed& feed_;
  std::uint64_t seed_, first_, end_;
  bool in_sequence_;
  std::vector<bool> turns_;
  std::uint64_t submitted_;       // samples whose decode is submitted
  std::uint64_t waiting_ = 0;     // mini-batches of them that no step was asked for
  std::uint64_t decoded_before_;  // mini-batches, by the feed, for others
};

}  // namespace omni
