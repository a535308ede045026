#include "scheduling/pilots/guard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/communicator/ranks.hpp"
#include "scheduling/groups/rank_sums.hpp"
#include "scheduling/pilots/health/health_check.hpp"
#include "scheduling/pilots/health/inspection.hpp"
#include "scheduling/pilots/registry.hpp"
#include "scheduling/pilots/saved_numbers.hpp"
#include "scheduling/training/rate_policy.hpp"

namespace omni {
namespace {

constexpr int kKeptStates = 2, kSnapshots = kKeptStates + 1;
// The first of the saved numbers is one of these versions. Before version kFailures, the failures
// of RateShare, stretch_ and before_ are missing. Before kDeadLayers, dead_at_start_ is missing,
// too. Before kBefore there is no version: the first number is the share, at most 1.
constexpr double kFailures = 4, kDeadLayers = 3, kBefore = 2;
// A window of losses, which are judged together, covers about kSamples samples. It has at least
// kLosses losses, and as many as there are groups.
constexpr std::uint64_t kSamples = 1024, kLosses = 16;
// From one decision to the next there are at least kWindows windows, and at least 1 / kPart of the
// iterations done.
constexpr std::uint64_t kWindows = 2, kPart = 8;
constexpr std::uint64_t kTrial = 4;  // stretches that must be left when the share grows
// With one group the product of the step and the curvature is usually at most this. Four nets at
// their best rates of a grid, with momentum 0.9, had 1 to 2.
constexpr double kUsualStep = 2;
// If the losses cover this many stretches since the last snapshot or return, the share was lowered
// at the end of the first.
constexpr double kLowered = 1.5;
// A larger share of the rate fails if losses exceed those of the smaller share by this many
// standard errors.
constexpr double kErrors = 2;
constexpr std::uint64_t kProbes = 16;  // most mini-batches that measure the loss of the result

std::size_t window_of(const ComputeGroups& groups) {
  const std::uint64_t batch = groups.net().options().batch;
  return std::max({kLosses, kSamples / batch, static_cast<std::uint64_t>(groups.count())});
}

// Returns the layer that gives the same output for all samples. Returns nothing if there is none,
// or if there are several ranks, as no rank sees all samples.
Result<std::optional<Finding>> dead_layer(Trainer& training) {
  if (ranks::several()) return std::optional<Finding>();
  return find_dead_layer(training);
}

const PilotRegistration guard_registration(
    {.name = "guard",
     .counts_iterations = true,
     .without = "--guard off",
     .make = [](const PilotOptions& options) -> std::unique_ptr<Pilot> {
       const bool wanted = options.guard && options.groups > 1 && !options.automatic;
       return wanted ? std::make_unique<Guard>() : nullptr;
     }});

}  // namespace

double Guard::first_share(int groups) {
  return std::min(1.0, stable_step(groups - 1) / kUsualStep);
}

std::size_t Guard::bytes(ComputeGroups& groups) const {
  return kSnapshots * TrainingSnapshot::bytes(groups, false);
}

std::size_t Guard::kept_bytes(ComputeGroups& groups) const {
  return groups.count() > 1 ? kKeptStates * TrainingSnapshot::bytes(groups, false) : 0;
}

Status Guard::begin(Trainer& training, std::span<const double> saved) {
  return training.groups().count() > 1 ? watch(training, saved) : Status();
}

Status Guard::watch(Trainer& training, std::span<const double> saved) {
  const ComputeGroups& groups = training.groups();
  window_ = window_of(groups);
  // If the loss at chance is not known (infinite), log(classes) stands for it. Compared with an
  // infinite loss at chance, no loss would ever count as lost. That is so for a net without
  // classes.
  const double chance = loss_at_chance(groups.net(), training.feed().dataset());
  constexpr double kAboveAll = 1e30;
  const int classes = groups.net().classes();
  const double usual = classes > 0 ? std::log(classes) : kAboveAll;
  watch_.emplace(window_, std::isfinite(chance) ? chance : usual);
  share_ = RateShare(first_share(groups.count()));
  if (!saved.empty() && saved.front() >= kBefore) return go_on(training, saved);
  if (!saved.empty()) OMNI_CHECK(go_on_from_older(saved));
  OMNI_TRY(const std::optional<Finding> dead, dead_layer(training));
  dead_at_start_ = dead.has_value();
  OMNI_CHECK(keep(training));
  OMNI_TRY(const std::vector<double> losses, losses_now(training));
  for (const double loss : losses) latest_->watch.note(loss);
  latest_->watch.expect_falling();
  sure_ = latest_;
  if (next_ <= training.state().iteration) rest_later(training.state().iteration);
  return {};
}

Status Guard::go_on(const Trainer& training, std::span<const double> saved) {
  const auto kept = training.state().kept.find(name());
  if (kept == training.state().kept.end() || kept->second.size() != kKeptStates)
    return SavedNumbers::impossible(name());
  SavedNumbers read(saved.subspan(1));
  share_ = RateShare(read, saved.front() >= kFailures);
  next_ = read.count();
  returned_ = read.between(0, 1) != 0;
  const LossWatch fresh = *watch_;
  watch_->restore(read.watch());
  sure_ = {kept->second.front(), fresh};
  latest_ = {kept->second.back(), fresh};
  for (GoodState* good : {&*sure_, &*latest_}) {
    good->watch.restore(read.watch());
    good->level = read.mean();
  }
  if (saved.front() >= kDeadLayers) dead_at_start_ = read.between(0, 1) != 0;
  if (saved.front() >= kFailures)
    for (LossMean* each : {&stretch_, &before_}) *each = read.mean().value_or(LossMean{});
  return read.status(name());
}

Status Guard::go_on_from_older(std::span<const double> saved) {
  SavedNumbers read(saved);
  share_ = RateShare(read, false);
  next_ = read.count();
  watch_->restore(read.losses());
  return read.status(name());
}

std::vector<double> Guard::numbers() const {
  if (!watch_) return {};
  std::vector<double> all{kFailures};
  for (const double each : share_.saved()) all.push_back(each);
  all.insert(all.end(), {static_cast<double>(next_), returned_ ? 1.0 : 0.0});
  append(all, watch_->state());
  for (const GoodState* good : {&*sure_, &*latest_}) {
    append(all, good->watch.state());
    append(all, good->level);
  }
  all.push_back(dead_at_start_ ? 1 : 0);
  append(all, stretch_);
  append(all, before_);
  return all;
}

std::vector<std::shared_ptr<const TrainingSnapshot>> Guard::kept() const {
  if (!watch_) return {};
  return {sure_->snapshot, latest_->snapshot};
}

std::uint64_t Guard::stretch(std::uint64_t iteration) const {
  return std::max<std::uint64_t>(kWindows * window_, iteration / kPart);
}

Status Guard::keep(Trainer& training) {
  ComputeGroups& groups = training.groups();
  // The first rank's snapshot goes into checkpoints, so the first rank gets the whole state.
  if (groups.sums != nullptr) OMNI_CHECK(groups.sums->gather_memory());
  watch_->expect_falling();
  auto snapshot = std::make_shared<TrainingSnapshot>();
  snapshot->take(groups, training.state(), false);
  before_ = std::exchange(stretch_, {});
  latest_ = {std::move(snapshot), *watch_};
  returned_ = false;
  return {};
}

Advice Guard::judge(const StepReport& at) {
  if (!watch_) return Advice::go_on;
  watch_->note(at.loss);
  stretch_.add(at.loss);
  const bool known = latest_->level.has_value();
  if (!known) latest_->level = watch_->first();
  return watch_->lost() || (!known && is_worse()) ? Advice::go_back : Advice::go_on;
}

Status Guard::rested(Trainer& training) {
  const std::uint64_t iteration = training.state().iteration;
  if (!watch_) return begin(training, {});
  if (iteration < next_) return {};
  OMNI_TRY(const std::optional<Error> why, why_bad(training));
  if (why) {
    OMNI_TRY(const bool restored, go_back(training, *why));
    if (restored) return {};
  }
  if (watch_->good()) {
    sure_ = std::exchange(latest_, {});
    // The share does not grow near the end of the training, as too few losses would follow to show
    // the effect.
    const std::uint64_t end = training.options().iterations;
    share_.held(iteration, rate_of(training), is_higher(kErrors),
                end == 0 || iteration + kTrial * stretch(iteration) < end);
    OMNI_CHECK(keep(training));
  } else if (!share_.is_smallest()) {
    share_.failed(iteration, rate_of(training));
  }
  rest_later(iteration);
  return {};
}

// Returns why the current parameters are worse than the last snapshot: the loss rises, it stays
// higher although the share was lowered, or a layer gives the same output for all samples. Returns
// nothing if none is the case.
Result<std::optional<Error>> Guard::why_bad(Trainer& training) const {
  const auto rises = [&](const LossMean& before, const LossMean& now) {
    return std::optional(Error{ErrorKind::diverged, "",
                               fmt::format("the loss rises, from {:.4g} to {:.4g} in iteration {}",
                                           before.mean, now.mean, training.state().iteration),
                               ""});
  };
  if (before_.count > 0 && watch_->surely_above(stretch_, before_)) return rises(before_, stretch_);
  const LossMean good = latest_->watch.recent(), now = watch_->recent();
  const auto began = training.state().iteration - static_cast<std::uint64_t>(stretch_.count);
  const bool lowered = stretch_.count >= kLowered * static_cast<double>(stretch(began));
  if (lowered && !watch_->good() && watch_->surely_above(now, good)) return rises(good, now);
  if (!watch_->near_chance() || dead_at_start_) return std::optional<Error>();
  OMNI_TRY(const std::optional<Finding> dead, dead_layer(training));
  if (!dead) return std::optional<Error>();
  return std::optional(Error{ErrorKind::diverged, dead->where, dead->what, ""});
}

double Guard::rate_of(const Trainer& training) {
  const TrainingState& state = training.state();
  return learning_rate(training.solver(), state.seed, state.iteration);
}

Result<bool> Guard::go_back(Trainer& training, const Error& why) {
  if (!watch_ || share_.is_smallest()) return false;
  if (returned_ || !latest_->level || is_worse()) {
    // The level of sure_ was measured at a higher rate, so it is not compared with latest_ from now
    // on.
    sure_->level.reset();
    latest_ = sure_;
    before_ = {};
  }
  stretch_ = {};
  returned_ = true;
  latest_->snapshot->restore(training.groups());
  latest_->level.reset();
  watch_ = latest_->watch;
  watch_->forget_recent();
  const TrainingState& at = latest_->snapshot->state();
  TrainingState& state = training.state();
  state.average_loss = at.average_loss;
  state.average_accuracy = at.average_accuracy;
  share_.failed(state.iteration, rate_of(training));
  training.warn(
      fmt::format("{}: back to the parameters of iteration {}, with {:.2g} of the "
                  "learning rate",
                  why.what, at.iteration, share_.value()));
  rest_later(state.iteration);
  return true;
}

Result<std::vector<double>> Guard::losses_now(Trainer& training) const {
  const std::uint64_t batch = training.groups().net().options().batch;
  const TrainingState& state = training.state();
  OMNI_TRY(Probe now,
           probe(training.groups().net(), training.feed(), state.seed,
                 (state.samples / batch + 1) * batch, std::min<std::uint64_t>(window_, kProbes)));
  return std::move(now.losses);
}

// The last losses were computed with older parameters, so the level is measured again.
Status Guard::end(Trainer& training) {
  if (!watch_) return {};
  ComputeGroups& groups = training.groups();
  OMNI_TRY(const std::vector<double> last_losses, losses_now(training));
  LossMean lowest = mean_of(last_losses);
  if (watch_->ends_well() && !watch_->surely_above(lowest, watch_->recent())) return {};
  TrainingSnapshot last;
  last.take(groups, training.state(), false);
  const TrainingSnapshot* best = &last;
  for (const GoodState* good : {&*latest_, &*sure_}) {
    good->snapshot->restore(groups);
    OMNI_TRY(const std::vector<double> losses, losses_now(training));
    const LossMean level = mean_of(losses);
    if (!watch_->surely_above(lowest, level)) continue;
    best = good->snapshot.get();
    lowest = level;
  }
  best->restore(groups);
  if (best == &last) return {};
  training.warn(fmt::format("the loss rises at the end: the parameters are those of iteration {}",
                            best->state().iteration));
  training.changed_result();
  return {};
}

}  // namespace omni
