#include "scheduling/groups/training_feed.hpp"

#include "runtime/tasks/recorder.hpp"

namespace omni {

TrainingFeed::TrainingFeed(DataFeed& feed, std::uint64_t seed, std::uint64_t first,
                           std::uint64_t end)
    : feed_(feed),
      seed_(seed),
      first_(first),
      end_(end),
      submitted_(first),
      decoded_before_(feed.decoded()) {}

Step TrainingFeed::step(std::uint64_t number) {
  while (submitted_ <= number + kPrefetched && submitted_ < end_) feed_.submit(submitted_++);
  if (recording::on()) record(number);
  return {.training = true,
          .seed = seed_,
          .first_sample = number * static_cast<std::uint64_t>(feed_.batch()),
          .slot = &feed_.slot(number)};
}

void TrainingFeed::release_from(std::uint64_t number) {
  for (; submitted_ > number; --submitted_) feed_.release(submitted_ - 1);
}

// How far the data are ahead of the mini-batch that is submitted next.
void TrainingFeed::record(std::uint64_t number) {
  const std::uint64_t taken = number - first_;
  const std::uint64_t decoded = feed_.decoded() - decoded_before_;
  const trace::Nanoseconds at = recording::now();
  recording::write(trace::Counter{"feed.decoded", at,
                                  static_cast<double>(decoded > taken ? decoded - taken : 0)});
  recording::write(trace::Counter{"feed.submitted", at, static_cast<double>(submitted_ - number)});
}

}  // namespace omni
