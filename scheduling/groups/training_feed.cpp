#include "scheduling/groups/training_feed.hpp"

#include "runtime/tasks/recorder.hpp"

namespace omni {

TrainingFeed::TrainingFeed(DataFeed& feed, std::uint64_t seed, std::uint64_t first,
                           std::uint64_t end, bool in_sequence, std::vector<bool> turns)
    : feed_(feed),
      seed_(seed),
      first_(first),
      end_(end),
      in_sequence_(in_sequence),
      turns_(std::move(turns)),
      submitted_(first),
      decoded_before_(feed.decoded()) {}

Step TrainingFeed::step(std::uint64_t first_sample, std::uint64_t update_end) {
  if (in_sequence_) {
    for (; waiting_ <= kPrefetched && submitted_ < end_; submitted_ += batch()) {
      if (!is_taken(submitted_)) continue;
      feed_.submit(submitted_);
      ++waiting_;
    }
    --waiting_;
    if (recording::on()) record(first_sample);
  } else {
    for (const std::uint64_t each : {first_sample, first_sample + batch()})
      if (each < update_end && !feed_.holds(each)) feed_.submit(each);
  }
  return {.training = true,
          .seed = seed_,
          .first_sample = first_sample,
          .slot = &feed_.slot(first_sample)};
}

bool TrainingFeed::is_taken(std::uint64_t sample) const {
  return turns_.empty() || turns_[(sample - first_) / batch() % turns_.size()];
}

void TrainingFeed::release_from(std::uint64_t sample) {
  for (; in_sequence_ && submitted_ > sample; submitted_ -= batch())
    if (is_taken(submitted_ - batch())) {
      feed_.release(submitted_ - batch());
      --waiting_;
    }
}

// How far the data are ahead of the mini-batch that is submitted next.
void TrainingFeed::record(std::uint64_t first_sample) {
  const std::uint64_t taken = (first_sample - first_) / batch();
  const std::uint64_t decoded = feed_.decoded() - decoded_before_;
  const trace::Nanoseconds at = recording::now();
  recording::write(trace::Counter{"feed.decoded", at,
                                  static_cast<double>(decoded > taken ? decoded - taken : 0)});
  recording::write(trace::Counter{"feed.submitted", at,
                                  static_cast<double>((submitted_ - first_sample) / batch())});
}

}  // namespace omni
