#include "scheduling/pilots/tuning/tuned_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "scheduling/pilots/health/health_check.hpp"

namespace omni {
namespace {

// Trials may cost a tenth of all iterations: half of that in the cold start. Where there is no end,
// of as many as the training is expected to have.
constexpr std::uint64_t kColdShare = 20, kShortest = 4000, kOutlook = 4;
constexpr std::uint64_t kFewestTrials = 5;    // in the cold start, however short the training is
constexpr std::uint64_t kShortestTrial = 20;  // iterations: momentum 0.9 shows in them
constexpr std::uint64_t kFirstSearch = 8;     // 1 / of the training, after the cold start
constexpr double kMuchFaster = 1.5;           // then groups come before other steps
constexpr double kEpochSeconds = 3600;        // between searches, at most
// The rate stays what it is and falls to 0 at the end. So do trials, or small steps would always
// look best: large ones move far, and only show it in a cooldown.
constexpr std::uint64_t kCooldown = 4;  // 1 / of the training
constexpr int kMostReturns = 12;        // to the last good parameters

// Of data of one class nothing can be learnt. Losses other than softmax's have no such level.
double loss_at_chance(const Net& net, const Dataset& data) {
  const std::optional<double> loss = chance_loss(net, class_shares(data, net.classes()));
  if (!loss) return INFINITY;
  return *loss > 0 ? *loss : std::log(net.classes());
}

}  // namespace

TunedTraining::TunedTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test,
                             TrainingState state, TrainerOptions options, Workers workers,
                             TunedEvents events, Asynchrony asynchrony, MakeClock make_clock)
    : groups_(groups),
      train_(train),
      test_(test),
      state_(std::move(state)),
      options_(std::move(options)),
      events_(std::move(events)),
      workers_(workers),
      asynchrony_(asynchrony),
      // When all work is merged, groups gain nothing.
      most_groups_(groups.net().has(Net::Phase::replicated) ? groups.most() : 1),
      make_clock_(std::move(make_clock)),
      chance_(loss_at_chance(groups.net(), train.dataset())),
      seconds_(options_.seconds_before),
      saved_at_(state_.iteration),
      watch_(window(), chance_),
      watch_at_start_(watch_),
      watch_at_champion_(watch_) {
  // The momentum that is searched is the total: what asynchrony adds is taken away.
  options_.strategy = async(asynchrony_, Compensation::theory);
  if (state_.tuning) {
    say(fmt::format("auto: goes on with {}", describe(setting())));
    say_layout();
  } else {
    const SolverOptions& solver = options_.solver;
    state_.tuning = Tuning{.momentum = shortest_decimal(solver.momentum),
                           .learning_rate = shortest_decimal(solver.learning_rate)};
  }
  if (state_.guard && !state_.guard->losses.recent.empty()) watch_.restore(state_.guard->losses);
  state_.guard = GuardState{};
  events_.training.is_lost = [this](double loss) {
    watch_.note(loss);
    return watch_.lost() || watch_.rises();
  };
  if (make_clock_) {
    const auto shifted = [this](StepReport at) {
      // An evaluation may have none of its own.
      const double now = clock_ ? clock_->now() : state_.arrivals ? state_.arrivals->clock.now : 0;
      at.simulated_seconds = state_.tuning->simulated + at.simulated_seconds.value_or(now);
      return at;
    };
    for (auto* event : {&events_.training.on_iteration, &events_.training.on_step})
      if (*event) *event = [shifted, tell = *event](const StepReport& at) { tell(shifted(at)); };
    if (auto& event = events_.training.on_evaluation)
      event = [shifted, tell = event](const EvaluationReport& of) {
        tell({shifted(of.at), of.tally});
      };
  }
  events_.training.save_checkpoint =
      [this, save = events_.training.save_checkpoint](TrainingState at) -> Status {
    at.guard->losses = watch_.state();
    if (save) OMNI_CHECK(save(at));
    saved_at_ = at.iteration;
    return {};
  };
}

Status TunedTraining::train_and_search() {
  // While the rate is still rising, a trial would tell nothing about it.
  const std::uint64_t burn_in = options_.solver.burn_in;
  if (state_.owes_evaluation && left() > 0) OMNI_CHECK(evaluate_now());
  champion_.at.take(groups_, state_);
  start_ = champion_.at;
  watch_at_start_ = watch_at_champion_ = watch_;
  if (!state_.tuning->warm) {
    use(1);
    OMNI_CHECK(train_until(std::min(burn_in, state_.iteration + left())));
    if (left() < kFewest) {
      say(fmt::format(
          "auto: {} iterations are too few for trials ({} are needed): training with {}", left(),
          kFewest, describe(setting())));
      state_.tuning->warm = true;
      state_.tuning->next_search = UINT64_MAX;
    }
  }
  while (left() > 0) {
    const std::uint64_t next = std::min(state_.tuning->next_search, state_.iteration + left());
    if (state_.iteration < next)
      OMNI_CHECK(train_until(next));
    else
      OMNI_CHECK(search_now());
  }
  if (trials_told_ > 0)
    say(fmt::format(
        "auto: {} trials; discarded work took {:.1f} of {:.1f} seconds, {} "
        "iterations",
        trials_told_, lost_seconds_, seconds_ - options_.seconds_before, state_.tuning->lost));
  return options_.checkpoint_every != 0 ? save() : Status();
}

Status TunedTraining::search_now() {
  if (!can_afford(2 * length())) {
    state_.tuning->next_search =
        state_.tuning->warm ? UINT64_MAX
                            : state_.iteration + std::max<std::uint64_t>(100, state_.iteration / 2);
    return {};
  }
  const Setting before = setting();
  start_groups_ = before.groups;
  const bool cold = !state_.tuning->warm;
  start_.take(groups_, state_);
  watch_at_start_ = watch_;
  trials_.clear();
  SearchPlan plan{.length = length(), .cold = cold, .highest_step = state_.tuning->highest_step};
  if (!cold && most_groups_ > 1 && timed_.timings.empty()) OMNI_CHECK(time_groups());
  for (auto each = timed_.timings.rbegin(); each != timed_.timings.rend(); ++each)
    if (each->groups <= timed_.groups && each->groups != before.groups)
      plan.more_groups.push_back(each->groups);
  if (!plan.more_groups.empty())
    plan.groups_first =
        seconds_of(before.groups) > kMuchFaster * seconds_of(plan.more_groups.front());
  OMNI_TRY(const Probe now, probe(1));
  spread_ = now.spread;
  loss_at_start_ = now.losses.front();
  start_.restore(groups_);
  const Result<Found> found = omni::search(before, plan, *this);
  leave_clock();
  for (Trial& trial : trials_) {
    trial.chosen = found && trial.setting == found->setting;
    if (trial.reason.empty()) trial.reason = "stopped before there was a choice";
  }
  if (events_.on_search) events_.on_search(trials_, state_.iteration);
  if (found) return adopt(*found);
  use(before.groups);
  start_.restore(groups_);
  if (found.error().kind == ErrorKind::interrupted) return stopped();
  if (found.error().kind != ErrorKind::diverged || cold) return found.error();
  return go_back(found.error());
}

Status TunedTraining::adopt(const Found& found) {
  const std::uint64_t before = state_.iteration;
  Tuning& tuning = *state_.tuning;
  const double simulated = tuning.simulated;
  const std::uint64_t lost = tuning.lost, searched = length();
  if (found.setting != champion_.setting) {
    use(found.setting.groups);
    start_.restore(groups_);
    tuning.momentum = found.setting.momentum;
    tuning.learning_rate = found.setting.learning_rate;
    tuning.next_search = next_search(searched);
    say(
        fmt::format("auto: no trial learns: training goes on from before them with {}; the next "
                    "search is in iteration {}",
                    describe(found.setting), tuning.next_search));
    return {};
  }
  use(champion_.setting.groups);
  champion_.at.restore(groups_);
  state_ = champion_.at.state();
  state_.arrivals.reset();
  tuning.lost = lost - std::min(lost, champion_.iterations);
  tuning.simulated = simulated;
  lost_seconds_ -= champion_.seconds;
  for (const double loss : champion_.losses) watch_.note(loss);
  watch_.expect_falling();
  watch_at_champion_ = watch_;
  tuning.warm = tuning.warm || found.fate == Fate::learns;
  tuning.next_search = next_search(searched);
  const Trial& chosen = trials_[champion_.trial];
  say(fmt::format(
      "auto: chose trial {}, {}: {}; the next search is {}", chosen.number,
      describe(chosen.setting), found.fate == Fate::learns ? chosen.reason : "nothing learns yet",
      tuning.next_search == UINT64_MAX ? "none"
                                       : fmt::format("in iteration {}", tuning.next_search)));
  say_layout();
  return catch_up(before);
}

// While nothing learns, soon, with longer trials. Else when the training is twice as old.
std::uint64_t TunedTraining::next_search(std::uint64_t searched) const {
  const std::uint64_t now = state_.iteration;
  if (!state_.tuning->warm) return now + 2 * searched;
  std::uint64_t next = std::max(2 * now, horizon() / kFirstSearch);
  if (seconds_ > 0 && now > 0) {
    const double each = seconds_ / static_cast<double>(now);
    next = std::min(next, now + static_cast<std::uint64_t>(std::max(1.0, kEpochSeconds / each)));
  }
  return next + 4 * searched < cooldown_start() ? next : UINT64_MAX;
}

// What was due while the trial ran.
Status TunedTraining::catch_up(std::uint64_t before) {
  const auto missed = [&](std::uint64_t every) {
    return every != 0 && before / every != state_.iteration / every;
  };
  const bool evaluates = missed(options_.evaluate_every) && left() > 0;
  state_.owes_evaluation = evaluates && test_ != nullptr;
  if (missed(options_.checkpoint_every))
    if (Status saved = save(); !saved) log::warn("{}; going on", saved.error().message());
  return evaluates ? evaluate_now() : Status();
}

Status TunedTraining::train_until(std::uint64_t iteration) {
  while (state_.iteration < iteration) {
    TrainerOptions options = options_;
    options.until = std::min(iteration, state_.iteration + stretch());
    options.seconds_before = seconds_;
    options.cool_from = cooldown_start();
    options.cool_until = options_.iterations;
    set_clock(state_);
    options.clock = clock_.get();
    Trainer trainer(groups_, train_, test_, state_, options, events_.training);
    Status trained = trainer.run();
    state_ = trainer.state();
    seconds_ = trainer.seconds();
    if (!trained) {
      if (trained.error().kind != ErrorKind::diverged) return trained;
      return go_back(trained.error());
    }
    if (watch_.good()) keep();
    if (!state_.tuning->warm && watch_.lowest() < kLearned * chance_) {
      state_.tuning->warm = true;
      state_.tuning->next_search = state_.iteration;
      return {};
    }
  }
  return {};
}

void TunedTraining::keep() {
  std::swap(start_, champion_.at);
  watch_at_start_ = watch_at_champion_;
  champion_.at.take(groups_, state_);
  watch_at_champion_ = watch_;
}

// The parameters of the last but one good moment, as the last one may have been about to get lost.
Status TunedTraining::go_back(Error error) {
  Tuning& tuning = *state_.tuning;
  if (++tuning.returns > kMostReturns) return error;
  start_.restore(groups_);
  watch_ = watch_at_start_;
  watch_.forget_recent();
  champion_.at = start_;
  watch_at_champion_ = watch_;
  state_.average_loss = start_.state().average_loss;
  state_.average_accuracy = start_.state().average_accuracy;
  tuning.highest_step = step_of(setting());
  tuning.learning_rate /= 2;
  const bool early = state_.iteration + 4 * length() < cooldown_start();
  if (tuning.next_search != UINT64_MAX && early) tuning.next_search = state_.iteration;
  if (events_.on_return)
    events_.on_return(error.what, state_.iteration, start_.state().iteration, tuning.learning_rate);
  log::warn("{}: back to the parameters of iteration {}, with half the learning rate", error.what,
            start_.state().iteration);
  return {};
}

Status TunedTraining::evaluate_now() {
  TrainerOptions options = options_;
  options.seconds_before = seconds_;
  Trainer trainer(groups_, train_, test_, state_, options, events_.training);
  Status evaluated = trainer.evaluate_now();
  state_.owes_evaluation = trainer.state().owes_evaluation;
  return with_checkpoint(std::move(evaluated));
}

Status TunedTraining::with_checkpoint(Status status) {
  if (!status && status.error().kind == ErrorKind::interrupted) OMNI_CHECK(save());
  return status;
}

// Trials are not part of what the user sees. What they took is part of what is saved.
Error TunedTraining::stopped() {
  saved_at_.reset();
  return {ErrorKind::interrupted, "", fmt::format("stopped after iteration {}", state_.iteration),
          "--resume goes on"};
}

void TunedTraining::say_layout() {
  const int groups = groups_.count();
  if (groups > 1 && groups != told_groups_)
    say(fmt::format("auto: {} compute groups on workers {}", groups,
                    describe(spread_groups(groups, workers_))));
  told_groups_ = groups;
}

std::uint64_t TunedTraining::left() const {
  if (options_.iterations == 0) return UINT64_MAX - state_.iteration;
  return options_.iterations - std::min(options_.iterations, state_.iteration);
}

std::uint64_t TunedTraining::horizon() const {
  return options_.iterations != 0 ? options_.iterations
                                  : std::max(kShortest, kOutlook * state_.iteration);
}

// A policy that lowers the rate needs no other.
std::uint64_t TunedTraining::cooldown_start() const {
  const bool constant = options_.solver.policy == RatePolicy::constant;
  if (options_.iterations == 0 || !constant) return UINT64_MAX;
  return options_.iterations - options_.iterations / kCooldown;
}

std::uint64_t TunedTraining::length() const {
  if (state_.tuning->warm) return std::clamp<std::uint64_t>(horizon() / 100, kShortestTrial, 2000);
  // While nothing learns, trials get longer.
  return std::clamp<std::uint64_t>(std::max(horizon() / 200, state_.iteration / 16), kShortestTrial,
                                   400);
}

bool TunedTraining::can_afford(std::uint64_t iterations) const {
  const auto cost = [this](std::uint64_t trained) {
    return trained + cooldown_of(trained) + probes() / kProbesPerIteration;
  };
  const bool cold = !state_.tuning->warm;
  const std::uint64_t half = horizon() / kColdShare;
  const std::uint64_t first = std::max(half, kFewestTrials * cost(kShortestTrial));
  // Where nothing learns, training is worth no more than trials.
  const std::uint64_t allowance = cold ? std::max(first, state_.iteration) : first + half;
  return state_.tuning->lost + cost(iterations) <= allowance;
}

// A training that goes on where the clock stands takes it. Else another begins, and what the last
// one counted is kept. That of a checkpoint takes its time from the arrivals.
void TunedTraining::set_clock(TrainingState& state) {
  if (!make_clock_) return;
  const bool fits =
      state.arrivals && state.arrivals->samples.size() == static_cast<std::size_t>(groups_.count());
  if (fits && clock_ && clock_->state() == state.arrivals->clock) return;
  if (!fits && !clock_ && state.arrivals) state_.tuning->simulated += state.arrivals->clock.now;
  if (!fits || clock_) state.arrivals.reset();
  state_.tuning->simulated += clock_ ? clock_->now() : 0;
  clock_ = make_clock_(groups_.count());
}

// Behind a search another clock begins: what is saved has the time of all before it.
void TunedTraining::leave_clock() {
  state_.tuning->simulated += clock_ ? clock_->now() : 0;
  state_.arrivals.reset();
  clock_.reset();
}

}  // namespace omni
