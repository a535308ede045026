#include "scheduling/pilots/growing.hpp"

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
                                 Workers workers, int least,
                                 std::function<void(const std::string&)> say)
    : PiecewiseTraining(groups, train, test, std::move(options), std::move(events)),
      workers_(workers),
      devices_(workers.gpus > 0 ? workers.gpus : workers.all),
      say_(std::move(say)),
      growth_{.groups = (least + devices_ - 1) / devices_} {
  growth_.most = std::max(growth_.groups, groups.most() / devices_);
  const bool begun = state.iteration > 0;
  if (begun) growth_.groups = std::clamp(groups.count() / devices_, growth_.groups, growth_.most);
  const std::vector<double>& saved = state.growth;
  if (begun && saved.size() == 3 && saved[0] == devices_ && in_all() == groups.count()) {
    growth_.best = saved[1];
    growth_.settled = saved[2] != 0;
  } else if (in_all() != groups.count()) {
    groups.use(in_all(), workers_);
  }
  train_from(std::move(state), 0);
}

void GrowingTraining::train_from(TrainingState state, std::uint64_t until) {
  state.growth = {static_cast<double>(devices_), growth_.best, growth_.settled ? 1.0 : 0.0};
  begin(std::move(state), until);
}

Result<double> GrowingTraining::measure() {
  const std::uint64_t count = groups_.count();
  double seconds = 0;
  std::uint64_t samples = 0;
  for (const std::uint64_t updates : {kWarmUp, kMeasured}) {
    const TrainingState state = trainer_->state();
    const double before = trainer_->seconds();
    train_from(state, state.iteration + updates * count);
    OMNI_CHECK(trainer_->run());
    seconds = trainer_->seconds() - before;
    samples = trainer_->state().samples - state.samples;
  }
  return static_cast<double>(samples) / std::max(seconds, 1e-9);
}

Status GrowingTraining::run() {
  while (!growth_.settled) {
    const int measured = groups_.count();
    const std::uint64_t needed = (kWarmUp + kMeasured) * (measured + devices_);
    if (options_.iterations != 0 &&
        options_.iterations < trainer_->state().iteration + 2 * needed) {
      say_(fmt::format("groups: {} are kept: too few iterations are left to try more", measured));
      break;
    }
    OMNI_TRY(const double throughput, measure());
    growth_.note(throughput);
    say_(fmt::format("groups: {} train {:.1f} samples/s; {} are {}", measured, throughput, in_all(),
                     growth_.settled ? "kept" : "tried"));
    // All models start from the average.
    if (in_all() != measured) groups_.use(in_all(), workers_);
  }
  train_from(trainer_->state(), 0);
  return trainer_->run();
}

}  // namespace omni
