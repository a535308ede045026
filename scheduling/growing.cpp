#include "scheduling/growing.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace omni {

void GroupGrowth::note(double samples_per_second) {
  if (settled) return;
  if (best > 0 && samples_per_second <= (1 + threshold) * best) {
    --groups;
    settled = true;
    return;
  }
  best = samples_per_second;
  if (groups == most)
    settled = true;
  else
    ++groups;
}

GrowingTraining::GrowingTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test,
                                 TrainingState state, TrainerOptions options, TrainerEvents events,
                                 Workers workers, bool settled,
                                 std::function<void(const std::string&)> say)
    : groups_(groups),
      train_(train),
      test_(test),
      options_(std::move(options)),
      events_(std::move(events)),
      workers_(workers),
      devices_(workers.gpus > 0 ? workers.gpus : workers.all),
      say_(std::move(say)),
      growth_{.most = std::max(1, groups.most() / devices_), .settled = settled} {
  if (!settled) use(1);
  begin(std::move(state), 0);
}

void GrowingTraining::begin(TrainingState state, std::uint64_t until) {
  options_.until = until;
  trainer_.emplace(groups_, train_, test_, std::move(state), options_, events_);
}

// All models start from the average.
void GrowingTraining::use(int groups_per_device) {
  groups_.use(std::min(groups_per_device * devices_, groups_.most()), workers_);
}

Result<double> GrowingTraining::measure() {
  const auto count = static_cast<std::uint64_t>(groups_.count());
  double seconds = 0;
  std::uint64_t samples = 0;
  for (const std::uint64_t updates : {kWarmUp, kMeasured}) {
    const TrainingState state = trainer_->state();
    const double before = trainer_->seconds();
    options_.seconds_before = before;
    begin(state, state.iteration + updates * count);
    OMNI_CHECK(trainer_->run());
    seconds = trainer_->seconds() - before;
    samples = trainer_->state().samples - state.samples;
  }
  return static_cast<double>(samples) / std::max(seconds, 1e-9);
}

Status GrowingTraining::run() {
  while (!growth_.settled) {
    const int measured = groups_.count();
    const std::uint64_t needed =
        (kWarmUp + kMeasured) * static_cast<std::uint64_t>(measured + devices_);
    if (options_.iterations != 0 &&
        options_.iterations < trainer_->state().iteration + 2 * needed) {
      say_(fmt::format("groups: {} are kept: too few iterations are left to try more", measured));
      break;
    }
    OMNI_TRY(const double throughput, measure());
    growth_.note(throughput);
    const bool changes = growth_.groups * devices_ != measured;
    say_(fmt::format("groups: {} train {:.1f} samples/s; {}", measured, throughput,
                     growth_.settled ? fmt::format("{} are kept", growth_.groups * devices_)
                                     : fmt::format("{} are tried", growth_.groups * devices_)));
    if (changes) use(growth_.groups);
  }
  options_.seconds_before = trainer_->seconds();
  begin(TrainingState(trainer_->state()), 0);
  return trainer_->run();
}

}  // namespace omni
