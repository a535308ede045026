#include "scheduling/pilots/tuning/tuned.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/communicator/ranks.hpp"
#include "runtime/number_in.hpp"
#include "scheduling/pilots/health/health_check.hpp"
#include "scheduling/pilots/registry.hpp"
#include "scheduling/pilots/saved_numbers.hpp"
#include "scheduling/training/metrics_log.hpp"

namespace omni {
namespace {

constexpr int kMostReturns = 12;     // how often earlier parameters are restored at most
constexpr double kSmaller = 2;       // a return divides the step by this, or by kMuchSmaller
constexpr double kWorthEarly = 0.2;  // see SearchPlan::worth_smaller

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
  std::vector<double> all = tuning_.numbers(trials_->lost);
  const auto rest = std::min(static_cast<double>(next_rest_), SavedNumbers::kMostIterations);
  all.insert(all.end(), {dead_at_start_ ? 1.0 : 0.0, began_ ? 1.0 : 0.0, rest});
  for (const auto* watch : {&watch_, &watch_older_, &watch_newer_, &watch_before_search_})
    append(all, (*watch)->state());
  return all;
}

Status Tuned::take(std::span<const double> saved, const TrainingState& state) {
  SavedNumbers read(saved);
  trials_->lost = tuning_.take(read);
  if (Tuning::is_older(saved)) {
    const LossWatch::State losses = read.losses();
    if (!losses.recent.empty()) watch_->restore(losses);
    OMNI_CHECK(trials_->keep_before_search());
    watch_older_ = watch_newer_ = watch_before_search_ = watch_;
    began_ = tuning_.warm;
    return read.status(name());
  }
  const auto kept = state.kept.find(name());
  if (kept == state.kept.end() || kept->second.size() != kKept)
    return SavedNumbers::impossible(name());
  trials_->take(kept->second);
  dead_at_start_ = read.between(0, 1) != 0;
  began_ = read.between(0, 1) != 0;
  next_rest_ = read.count();
  watch_older_ = watch_newer_ = watch_before_search_ = watch_;
  for (auto* watch : {&watch_, &watch_older_, &watch_newer_, &watch_before_search_})
    (*watch)->restore(read.watch());
  return read.status(name());
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
    OMNI_CHECK(trials_->keep_before_search());
    watch_older_ = watch_newer_ = watch_before_search_ = watch_;
    OMNI_TRY(const auto failure, find_failure());
    dead_at_start_ = failure.has_value();
  } else {
    OMNI_CHECK(take(saved, training.state()));
    training.say(fmt::format("auto: goes on with {}", describe(setting())));
    say_layout();
  }
  if (!tuning_.warm) OMNI_CHECK(training.use_groups(1));
  // A checkpoint of this version says in which iteration groups rest next; else go_on() sets it.
  return saved.empty() || Tuning::is_older(saved) ? go_on() : Status();
}

Advice Tuned::judge(const StepReport& at) {
  watch_->note(at.loss);
  return watch_->lost() || watch_->rises() ? Advice::go_back : Advice::go_on;
}

Status Tuned::rested(Trainer& /*training*/) {
  if (iteration() < next_rest_) return {};
  const bool near_chance = watch_->near_chance();
  if (near_chance && !dead_at_start_) {
    OMNI_TRY(const std::optional<Error> failure, find_failure());
    if (failure) {
      OMNI_TRY(const bool restored, restore(*failure));
      return restored ? go_on() : Status(*failure);
    }
  }
  if (watch_->good() && !near_chance) {
    OMNI_CHECK(trials_->keep());
    watch_older_ = std::exchange(watch_newer_, watch_);
    tuning_.unproven = false;
  }
  if (!tuning_.warm && watch_->lowest() < kNearChance * chance_) {
    tuning_.warm = true;
    if (tuning_.searches && search_fits()) tuning_.next_search = iteration();
  }
  if (!tuning_.warm) raise_step();
  return go_on();
}

Result<std::optional<Error>> Tuned::find_failure() {
  const LossMean recent = watch_->recent();
  const bool known = recent.count >= static_cast<double>(window()) &&
                     iteration() >= tuning_.changed + 2 * window();
  if (const auto why = tuning_.failure(recent, step_of(setting()), chance_); known && why)
    return std::optional(Error{ErrorKind::diverged, "", *why, ""});
  if (ranks::several()) return std::optional<Error>();  // no rank sees all samples
  OMNI_TRY(const std::optional<Finding> finding, find_dead_layer(*training_));
  if (!finding) return std::optional<Error>();
  return std::optional(Error{ErrorKind::diverged, finding->where, finding->what, ""});
}

void Tuned::raise_step() {
  const std::optional<double> larger =
      tuning_.raised(step_of(setting()), training_->groups().count(), iteration(), horizon());
  if (!larger) return;
  tuning_.learning_rate = with_step(setting(), *larger).learning_rate;
  tuning_.changed = iteration();
  training_->say(
      fmt::format("auto: nothing is learned yet, and the step is far below {:.2g}, where "
                  "a training diverges: rate {:.3g}",
                  tuning_.failing_step, tuning_.learning_rate));
}

Status Tuned::go_on() {
  // During burn-in trials cannot judge the rate, which is still rising.
  const std::uint64_t burn_in = training_->solver().burn_in;
  if (!began_ && !tuning_.warm && iteration() < burn_in) {
    next_rest_ = std::min(burn_in, iteration() + stretch());
    return {};
  }
  if (!std::exchange(began_, true) && left() < kFewest) {
    training_->say(
        fmt::format("auto: {} iterations are too few for trials ({} are needed): training with {}",
                    left(), kFewest, describe(setting())));
    tuning_.searches = false;
    tuning_.next_search = UINT64_MAX;
  }
  while (left() > 0 && tuning_.next_search <= iteration()) OMNI_CHECK(search_now());
  next_rest_ = std::min(tuning_.next_search, iteration() + stretch());
  return {};
}

Status Tuned::search_now() {
  const Trials::Budget budget = this->budget();
  if (!trials_->can_afford(2 * budget.length, budget)) {
    tuning_.next_search = UINT64_MAX;
    training_->say(
        fmt::format("auto: no search in iteration {}: its trials would exceed their share; {} "
                    "iterations so far",
                    iteration(), trials_->lost));
    return {};
  }
  TrainingState& state = training_->state();
  const double simulated = state.arrivals ? state.arrivals->clock.now : 0;
  const bool cold = !tuning_.warm && tuning_.failing_step == 0;
  if (cold || (tuning_.warm && !tuning_.unproven)) {
    const bool present = cold || watch_->good();
    if (present)
      OMNI_CHECK(trials_->keep_before_search());
    else
      trials_->protect_newer();
    watch_before_search_ = present ? watch_ : watch_newer_;
    watch_older_ = watch_newer_ = watch_before_search_;
  }
  const Result<Found> found =
      trials_->search(setting(),
                      {.cold = cold,
                       .failed = tuning_.failed,
                       .failing_step = tuning_.failing_step > 0 ? tuning_.failing_step : INFINITY,
                       .worth_smaller = !cold && iteration() < left() ? kWorthEarly : kWorth},
                      budget);
  // After a search a new virtual clock begins, so the seconds of the old one are added here.
  state.simulated_before += simulated;
  state.arrivals.reset();
  if (found) return adopt(*found, budget.length);
  const Error& error = found.error();
  if (error.kind == ErrorKind::interrupted) {
    // A trial adds no iterations to the training, but a checkpoint must save its cost. So a
    // checkpoint becomes due.
    state.saved_at.reset();
    next_rest_ = iteration();
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
  if (found.fails) tuning_.failing_step = *found.fails;
  for (const Setting& failed : found.diverged)
    if (failed.momentum >= tuning_.momentum) tuning_.note_failed(failed.groups, step_of(failed));
  const bool adopts = found.setting == champion.setting;
  const bool dies = found.end == TrialEnd::dead && !dead_at_start_;
  if (dies || (adopts && found.end == TrialEnd::diverged)) {
    if (adopts) trials_->discard_champion();
    tuning_.next_search = next_search(searched);
    const Error dead{ErrorKind::diverged, "",
                     dies ? "the outputs are the same for all samples"
                          : "the best trial diverged when it went on",
                     ""};
    OMNI_TRY(const bool restored, restore(dead));
    return restored ? Status() : Status(dead);
  }
  if (!adopts) {
    tuning_.changed = iteration();
    tuning_.next_search = next_search(searched);
    training_->say(
        fmt::format("auto: no trial learns: training goes on from before them with {}; {}",
                    describe(found.setting), next_search_text()));
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
  watch_newer_ = watch_;
  tuning_.warm = tuning_.warm || found.learns;
  tuning_.changed = iteration();
  tuning_.next_search = next_search(searched);
  const Trial& chosen = trials_->all()[champion.trial];
  training_->say(
      fmt::format("auto: chose trial {}, {}: {}; {}", chosen.number, describe(chosen.setting),
                  found.learns ? chosen.reason : "nothing learns yet", next_search_text()));
  say_layout();
  return {};
}

std::string Tuned::next_search_text() const {
  return tuning_.next_search == UINT64_MAX
             ? "no search follows"
             : fmt::format("the next search is in iteration {}", tuning_.next_search);
}

Result<bool> Tuned::go_back(Trainer& /*training*/, const Error& why) {
  OMNI_TRY(const bool restored, restore(why));
  if (restored) OMNI_CHECK(go_on());
  return restored;
}

// Restores the older of the two saved good states, since in the newer one the loss may already
// rise. It restores the parameters from before the last search in two cases: the net has learned
// nothing, or no good state was saved since the last return.
Result<bool> Tuned::restore(const Error& why) {
  if (++tuning_.returns > kMostReturns) return false;
  const bool to_search = tuning_.unproven || !tuning_.warm;
  trials_->go_back(to_search ? Trials::before_search : Trials::older);
  if (to_search) watch_older_ = watch_before_search_;
  watch_ = watch_older_;
  watch_->forget_recent();
  watch_newer_ = watch_;
  tuning_.warm = watch_->lowest() < kNearChance * chance_;
  tuning_.unproven = true;
  tuning_.changed = iteration();
  const TrainingState& from = trials_->saved(Trials::older).state();
  TrainingState& state = training_->state();
  state.average_loss = from.average_loss;
  state.average_accuracy = from.average_accuracy;
  tuning_.note_failed(training_->groups().count(), step_of(setting()));
  tuning_.learning_rate /= to_search ? kMuchSmaller : kSmaller;
  if (tuning_.warm && tuning_.next_search != UINT64_MAX && search_fits())
    tuning_.next_search = iteration();
  training_->record({{"iteration", iteration()},
                     {"returned_to", from.iteration},
                     {"learning_rate", metrics_number(tuning_.learning_rate)},
                     {"reason", why.what}});
  training_->warn(
      fmt::format("{}: back to the parameters of iteration {}, with the learning rate "
                  "{:.3g}",
                  why.what, from.iteration, tuning_.learning_rate));
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
    training_->say(fmt::format(
        "auto: {} compute groups on workers {}", groups,
        describe(ranks::several()
                     ? spread_over_ranks(groups, workers_, ranks::size(),
                                         training_->groups().weights_of({0, ranks::size()}))
                     : GroupPlaces{spread_groups(groups, workers_)})));
  announced_groups_ = groups;
}

}  // namespace omni
