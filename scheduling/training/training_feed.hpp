// TrainingFeed decodes the mini-batches of a training before they are needed. A mini-batch is
// identified by its first sample.
#pragma once

#include <cstdint>

#include "layers/layer.hpp"
#include "runtime/data/feed/data_feed.hpp"
#include "runtime/tasks/recorder.hpp"

namespace omni {

class TrainingFeed {
 public:
  // Decodes samples from `first` to `end`. `in_sequence` means that step() is called for the passes
  // of this rank in order, and kPrefetched of them are decoded ahead. Otherwise step() decodes its
  // pass and the next pass of the same update. `turns` says which passes this rank takes, repeated
  // over all passes; if it is empty, this rank takes all. `turns` is only used with `in_sequence`.
  TrainingFeed(DataFeed& feed, std::uint64_t seed, std::uint64_t first, std::uint64_t end,
               bool in_sequence = true, std::vector<bool> turns = {})
      : feed_(feed),
        seed_(seed),
        first_(first),
        end_(end),
        in_sequence_(in_sequence),
        turns_(std::move(turns)),
        submitted_(first),
        decoded_before_(feed.decoded()) {}

  // Returns the Step of a pass. The pass belongs to an update that ends at sample `update_end`.
  Step step(std::uint64_t first_sample, std::uint64_t update_end) {
    if (in_sequence_) {
      for (; waiting_ <= kPrefetched && submitted_ < end_; submitted_ += batch()) {
        if (!is_taken(submitted_)) continue;
        feed_.submit(submitted_);
        ++waiting_;
      }
      --waiting_;
      if (recording::on()) record(first_sample);
    } else {
      for (const std::uint64_t pass : {first_sample, first_sample + batch()})
        if (pass < update_end && !feed_.holds(pass)) feed_.submit(pass);
    }
    return {.training = true,
            .seed = seed_,
            .first_sample = first_sample,
            .slot = &feed_.slot(first_sample)};
  }

  const BatchSlot& slot(std::uint64_t first_sample) { return feed_.slot(first_sample); }
  void release(std::uint64_t first_sample) { feed_.release(first_sample); }

  // Releases the mini-batches that were decoded ahead. Call it when the training stops before
  // `sample`.
  void release_from(std::uint64_t sample) {
    for (; in_sequence_ && submitted_ > sample; submitted_ -= batch())
      if (is_taken(submitted_ - batch())) {
        feed_.release(submitted_ - batch());
        --waiting_;
      }
  }

  // Passes the feed to `use` while no task is under way. What `use` decodes does not count in the
  // trace.
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
  bool is_taken(std::uint64_t sample) const {
    return turns_.empty() || turns_[(sample - first_) / batch() % turns_.size()];
  }

  // Records in the trace how many mini-batches ahead of this one are decoded, and how many are
  // submitted for decoding.
  void record(std::uint64_t first_sample) {
    const std::uint64_t taken = (first_sample - first_) / batch();
    const std::uint64_t decoded = feed_.decoded() - decoded_before_;
    const trace::Nanoseconds at = recording::now();
    recording::write(trace::Counter{"feed.decoded", at,
                                    static_cast<double>(decoded > taken ? decoded - taken : 0)});
    recording::write(trace::Counter{"feed.submitted", at,
                                    static_cast<double>((submitted_ - first_sample) / batch())});
  }

  DataFeed& feed_;
  std::uint64_t seed_, first_, end_;
  bool in_sequence_;
  std::vector<bool> turns_;
  std::uint64_t submitted_;       // decoding is submitted up to this sample
  std::uint64_t waiting_ = 0;     // mini-batches that are submitted to decode but not yet used
  std::uint64_t decoded_before_;  // mini-batches that the feed decoded for other users
};

}  // namespace omni
