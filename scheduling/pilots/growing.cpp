#include "scheduling/pilots/growing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scheduling/pilots/of_first_rank.hpp"
#include "scheduling/pilots/registry.hpp"
#include "scheduling/pilots/saved_numbers.hpp"

namespace omni {
namespace {

const PilotRegistration growing_registration(
    {.name = "growing",
     .counts_iterations = true,
     .outlasts_data = true,
     .make = [](const PilotOptions& options) -> std::unique_ptr<Pilot> {
       if (!options.grows) return nullptr;
       return std::make_unique<Growing>(options.workers, options.least_groups);
     }});

}  // namespace

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

Status Growing::begin(Trainer& training, std::span<const double> saved) {
  const ComputeGroups& groups = training.groups();
  devices_ = static_cast<int>(ranks::least(devices_)) * ranks::size();
  growth_.groups = (least_ + devices_ - 1) / devices_;
  growth_.most = std::max(growth_.groups, groups.most() / devices_);
  const bool begun = training.state().iteration > 0;
  if (begun) growth_.groups = std::clamp(groups.count() / devices_, growth_.groups, growth_.most);
  if (!saved.empty()) {
    SavedNumbers read(saved);
    const std::uint64_t devices = read.count();
    const double best = read.between(0, SavedNumbers::kLargest);
    const bool settled = read.between(0, 1) != 0;
    OMNI_CHECK(read.status(name()));
    if (devices == static_cast<std::uint64_t>(devices_) && in_all(training) == groups.count()) {
      growth_.best = best;
      growth_.settled = settled;
    }
  }
  OMNI_CHECK(training.use_groups(in_all(training)));
  try_next(training);
  return {};
}

void Growing::try_next(Trainer& training) {
  next_ = UINT64_MAX;
  measured_.reset();
  if (growth_.settled) return;
  const int count = training.groups().count();
  const std::uint64_t iteration = training.state().iteration, end = training.options().iterations,
                      needed = (kWarmUp + kMeasured) * static_cast<std::uint64_t>(count + devices_);
  if (end != 0 && end < iteration + 2 * needed)
    training.say(
        fmt::format("groups: {} are kept: too few iterations are left to try more", count));
  else
    next_ = iteration + kWarmUp * static_cast<std::uint64_t>(count);
}

Status Growing::rested(Trainer& training) {
  const TrainingState& state = training.state();
  if (state.iteration < next_) return {};
  const int count = training.groups().count();
  if (!measured_) {
    measured_ = {of_first_rank(training.seconds()), state.samples};
    next_ = state.iteration + kMeasured * static_cast<std::uint64_t>(count);
    return {};
  }
  const double seconds = std::max(of_first_rank(training.seconds()) - measured_->begun, 1e-9),
               throughput = static_cast<double>(state.samples - measured_->samples) / seconds;
  growth_.note(throughput);
  training.say(fmt::format("groups: {} train {:.1f} samples/s; {} are {}", count, throughput,
                           in_all(training), growth_.settled ? "kept" : "tried"));
  OMNI_CHECK(training.use_groups(in_all(training)));  // all models start from the average
  try_next(training);
  return {};
}

}  // namespace omni
