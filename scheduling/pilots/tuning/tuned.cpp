#include "scheduling/pilots/tuning/tuned.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/number_in.hpp"
#include "scheduling/pilots/health/health_check.hpp"
#include "scheduling/pilots/registry.hpp"
#include "scheduling/pilots/saved_numbers.hpp"
#include "scheduling/training/metrics_log.hpp"

namespace omni {
namespace {

// Trials may cost a tenth of all iterations, half of it in the cold start (1 / kColdShare). For a
// training without an end the number of iterations is estimated: kOutlook times those done, but at
// least kShortest.
constexpr std::uint64_t kColdShare = 20, kShortest = 4000, kOutlook = 4;
constexpr std::uint64_t kFewestTrials = 5;    // in the cold start, however short the training is
constexpr std::uint64_t kShortestTrial = 20;  // iterations, long enough to judge a momentum of 0.9
constexpr std::uint64_t kFirstSearch = 8;     // the first search after the cold start: 1 / this
constexpr double kEpochSeconds = 3600;        // the longest time between two searches
// The rate is constant and falls to 0 at the end. Trials end in the same way: the advantage of a
// large step only shows after a cooldown, so small steps would always win without one.
constexpr std::uint64_t kCooldown = 4;  // the cooldown takes 1 / this of the training
constexpr int kMostReturns = 12;        // how often good parameters are restored at most

// Returns the loss at chance. Data of one class have a loss at chance of 0, so log(classes) stands
// for it. Losses for which it is not known have an infinite one.
double loss_at_chance(const Net& net, const Dataset& data) {
  const std::optional<double> loss = chance_loss(net, class_shares(data, net.classes()));
  if (!loss) return INFINITY;
  return *loss > 0 ? *loss : std::log(net.classes());
}

const PilotRegistration tuned_registration(
    {.name = "tuned",
     .counts_iterations = true,
     .without = "leave out --auto",
     .left_out = "was tuned by --auto; without it, momentum and learning rate are the net's",
     .make = [](const PilotOptions& options) -> std::unique_ptr<Pilot> {
       if (!options.automatic) return nullptr;
       return std::make_unique<Tuned>(options.workers, options.asynchrony);
     }});

}  // namespace

Steering Tuned::steering() const {
  return {.momentum = tuning_.momentum,
          .learning_rate = tuning_.learning_rate,
          .cool_from = cooldown_start(),
          .cool_until = training_->options().iterations};
}

std::vector<double> Tuned::numbers() const {
  const std::uint64_t none = static_cast<std::uint64_t>(SavedNumbers::kMostIterations);
  std::vector<double> all{tuning_.momentum,
                          tuning_.learning_rate,
                          tuning_.warm ? 1.0 : 0.0,
                          static_cast<double>(std::min(tuning_.next_search, none)),
                          static_cast<double>(trials_->lost),
                          tuning_.highest_step,
                          static_cast<double>(tuning_.returns)};
  append_losses(all, watch_->state());
  return all;
}

Status Tuned::begin(Trainer& training, std::span<const double> saved) {
  training_ = &training;
  seconds_before_ = training.seconds();
  chance_ = loss_at_chance(training.groups().net(), training.feed().dataset());
  trials_.emplace(training, asynchrony_, chance_);
  watch_.emplace(window(), chance_);
  if (saved.empty()) {
    tuning_.momentum = shortest_decimal(training.solver().momentum);
    tuning_.learning_rate = shortest_decimal(training.solver().learning_rate);
  } else {
    SavedNumbers read(saved);
    tuning_.momentum = read.between(-1, 1);
    tuning_.learning_rate = read.between(0, SavedNumbers::kLargest);
    tuning_.warm = read.between(0, 1) != 0;
    tuning_.next_search = read.count();
    if (static_cast<double>(tuning_.next_search) == SavedNumbers::kMostIterations)
      tuning_.next_search = UINT64_MAX;
    trials_->lost = read.count();
    tuning_.highest_step = read.between(0, SavedNumbers::kLargest);
    tuning_.returns = read.count();
    const LossWatch::State losses = read.losses();
    OMNI_CHECK(read.status(name()));
    if (!losses.recent.empty()) watch_->restore(losses);
    training.say(fmt::format("auto: goes on with {}", describe(setting())));
    say_layout();
  }
  trials_->keep();
  trials_->keep();
  watch_before_ = watch_at_good_ = watch_;
  began_ = tuning_.warm;
  if (!tuning_.warm) training.use_groups(1);
  return go_on();
}

Advice Tuned::judge(const StepReport& at) {
  watch_->note(at.loss);
  return watch_->lost() || watch_->rises() ? Advice::go_back : Advice::go_on;
}

Status Tuned::rested(Trainer& /*training*/) {
  if (iteration() < next_rest_) return {};
  if (watch_->good()) {
    trials_->keep();
    watch_before_ = std::exchange(watch_at_good_, watch_);
  }
  if (!tuning_.warm && watch_->lowest() < Trials::kLearned * chance_) {
    tuning_.warm = true;
    tuning_.next_search = iteration();
  }
  return go_on();
}

Status Tuned::go_on() {
  // During burn-in a trial cannot judge the rate, which is still rising.
  const std::uint64_t burn_in = training_->solver().burn_in;
  if (!began_ && !tuning_.warm && iteration() < burn_in) {
    next_rest_ = std::min(burn_in, iteration() + stretch());
    return {};
  }
  if (!std::exchange(began_, true) && left() < kFewest) {
    training_->say(
        fmt::format("auto: {} iterations are too few for trials ({} are needed): training with {}",
                    left(), kFewest, describe(setting())));
    tuning_.warm = true;
    tuning_.next_search = UINT64_MAX;
  }
  while (left() > 0 && tuning_.next_search <= iteration()) OMNI_CHECK(search_now());
  next_rest_ = std::min(tuning_.next_search, iteration() + stretch());
  return {};
}

Status Tuned::search_now() {
  const Trials::Budget budget = this->budget();
  if (!trials_->can_afford(2 * budget.length, budget)) {
    tuning_.next_search =
        tuning_.warm ? UINT64_MAX : iteration() + std::max<std::uint64_t>(100, iteration() / 2);
    return {};
  }
  TrainingState& state = training_->state();
  const double simulated = state.arrivals ? state.arrivals->clock.now : 0;
  watch_before_ = watch_;
  const bool cold = !tuning_.warm;
  const Result<Found> found =
      trials_->search(setting(), {.cold = cold, .highest_step = tuning_.highest_step}, budget);
  // After a search a new virtual clock begins.
  state.simulated_before += simulated;
  state.arrivals.reset();
  if (found) return adopt(*found, budget.length);
  const Error& error = found.error();
  if (error.kind == ErrorKind::interrupted) {
    // A trial does not count iterations, but its cost must be saved: a checkpoint is due.
    state.saved_at.reset();
    return stopped_after(iteration());
  }
  if (error.kind != ErrorKind::diverged || cold) return error;
  OMNI_TRY(const bool restored, restore(error));
  return restored ? Status() : error;
}

Status Tuned::adopt(const Found& found, std::uint64_t searched) {
  const TrialRun& champion = trials_->champion();
  tuning_.momentum = found.setting.momentum;
  tuning_.learning_rate = found.setting.learning_rate;
  if (found.setting != champion.setting) {
    tuning_.next_search = next_search(searched);
    training_->say(
        fmt::format("auto: no trial learns: training goes on from before them with {}; the next "
                    "search is in iteration {}",
                    describe(found.setting), tuning_.next_search));
    return {};
  }
  const TrainingState& from = champion.at.state();
  TrainingState& state = training_->state();
  state.iteration = from.iteration;
  state.samples = from.samples;
  state.average_loss = from.average_loss;
  state.average_accuracy = from.average_accuracy;
  state.strategy = from.strategy;
  for (const double loss : champion.losses) watch_->note(loss);
  watch_->expect_falling();
  watch_at_good_ = watch_;
  tuning_.warm = tuning_.warm || found.end == TrialEnd::learns;
  tuning_.next_search = next_search(searched);
  const Trial& chosen = trials_->all()[champion.trial];
  training_->say(fmt::format("auto: chose trial {}, {}: {}; the next search is {}", chosen.number,
                             describe(chosen.setting),
                             found.end == TrialEnd::learns ? chosen.reason : "nothing learns yet",
                             tuning_.next_search == UINT64_MAX
                                 ? "none"
                                 : fmt::format("in iteration {}", tuning_.next_search)));
  say_layout();
  return {};
}

// While nothing learns, the next search comes soon, with longer trials. Otherwise it comes when the
// training has twice as many iterations.
std::uint64_t Tuned::next_search(std::uint64_t searched) const {
  const std::uint64_t now = iteration();
  if (!tuning_.warm) return now + 2 * searched;
  std::uint64_t next = std::max(2 * now, horizon() / kFirstSearch);
  if (const double seconds = training_->seconds(); seconds > 0 && now > 0) {
    const double per_iteration = seconds / static_cast<double>(now);
    next = std::min(next,
                    now + static_cast<std::uint64_t>(std::max(1.0, kEpochSeconds / per_iteration)));
  }
  return next + 4 * searched < cooldown_start() ? next : UINT64_MAX;
}

Result<bool> Tuned::go_back(Trainer& /*training*/, const Error& why) {
  OMNI_TRY(const bool restored, restore(why));
  if (restored) OMNI_CHECK(go_on());
  return restored;
}

// Restores the older of the two good states: in the newer one the loss may already have begun to
// rise.
Result<bool> Tuned::restore(const Error& why) {
  if (++tuning_.returns > kMostReturns) return false;
  trials_->go_back();
  watch_ = watch_before_;
  watch_->forget_recent();
  watch_at_good_ = watch_;
  const TrainingState& from = trials_->before().state();
  TrainingState& state = training_->state();
  state.average_loss = from.average_loss;
  state.average_accuracy = from.average_accuracy;
  tuning_.highest_step = step_of(setting());
  tuning_.learning_rate /= 2;
  const bool early = iteration() + 4 * length() < cooldown_start();
  if (tuning_.next_search != UINT64_MAX && early) tuning_.next_search = iteration();
  training_->record({{"iteration", iteration()},
                     {"returned_to", from.iteration},
                     {"learning_rate", metrics_number(tuning_.learning_rate)},
                     {"reason", why.what}});
  training_->warn(
      fmt::format("{}: back to the parameters of iteration {}, with half the learning "
                  "rate",
                  why.what, from.iteration));
  return true;
}

Status Tuned::end(Trainer& training) {
  if (trials_->count() > 0)
    training.say(
        fmt::format("auto: {} trials; discarded work took {:.1f} of {:.1f} seconds, {} "
                    "iterations",
                    trials_->count(), trials_->lost_seconds, training.seconds() - seconds_before_,
                    trials_->lost));
  return {};
}

void Tuned::say_layout() {
  const int groups = training_->groups().count();
  if (groups > 1 && groups != announced_groups_)
    training_->say(fmt::format("auto: {} compute groups on workers {}", groups,
                               describe(spread_groups(groups, workers_))));
  announced_groups_ = groups;
}

std::uint64_t Tuned::left() const {
  const std::uint64_t end = training_->options().iterations;
  return end == 0 ? UINT64_MAX - iteration() : end - std::min(end, iteration());
}

std::uint64_t Tuned::horizon() const {
  const std::uint64_t end = training_->options().iterations;
  return end != 0 ? end : std::max(kShortest, kOutlook * iteration());
}

// There is no cooldown if the solver's policy changes the rate itself.
std::uint64_t Tuned::cooldown_start() const {
  const std::uint64_t end = training_->options().iterations;
  const bool constant = training_->solver().policy == RatePolicy::constant;
  return end == 0 || !constant ? UINT64_MAX : end - end / kCooldown;
}

std::uint64_t Tuned::length() const {
  if (tuning_.warm) return std::clamp<std::uint64_t>(horizon() / 100, kShortestTrial, 2000);
  // Before the net learns, trials get longer with the number of iterations.
  return std::clamp<std::uint64_t>(std::max(horizon() / 200, iteration() / 16), kShortestTrial,
                                   400);
}

Trials::Budget Tuned::budget() const {
  const std::uint64_t half = horizon() / kColdShare;
  const std::uint64_t first = std::max(half, kFewestTrials * trials_->cost(kShortestTrial));
  // While nothing learns, trials may take as many iterations as the training has done.
  return {.length = length(),
          .allowed = tuning_.warm ? first + half : std::max(first, iteration())};
}

std::uint64_t Tuned::window() const {
  return std::clamp<std::uint64_t>(1024 / training_->groups().net().options().batch, 16, 64);
}

std::uint64_t Tuned::stretch() const {
  return std::max<std::uint64_t>(2 * window(), iteration() / 8);
}

}  // namespace omni
