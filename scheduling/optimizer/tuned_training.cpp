#include "scheduling/optimizer/tuned_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "runtime/log.hpp"
#include "runtime/shortest_decimal.hpp"
#include "scheduling/groups/steady_rate.hpp"

namespace omni {
namespace {

// What is left of the budget is divided by these. A search usually has three trials: the rest is
// for more of them, and after the cold start for the next search.
constexpr std::uint64_t kUsualTrials = 5, kColdTrials = 8;
constexpr std::uint64_t kLeastEpoch = TrialBudget::kShare * 6 * TrialBudget::kLeastTrial;
// What is best changes fast in the beginning: epochs double, up to an hour. In a long training the
// first, and so its trials, is longer.
constexpr std::uint64_t kFirstEpoch = 4000, kFirstShare = 5;
constexpr std::uint64_t kWarmShare = 10;  // 1 / of the first epoch, before groups are made
constexpr double kEpochSeconds = 3600;
// Losses fall at once when steps get smaller, whatever becomes of it later: compared as they are,
// small steps would always win. So the last part of every trial takes the same small steps, a tenth
// of those that were best last (smaller only where the trial's own are), and the losses at its end
// are compared. It is not kept.
constexpr std::uint64_t kCooling = 2;  // 1 / its share
constexpr double kCoolSteps = 0.1;

// Seconds per iteration. The first part of them fills the pipeline; of the others the fastest
// counts, as other programs may have slowed some of them down. There are two parts or more.
double fastest(std::span<const double> ends, std::size_t part) {
  double least = INFINITY;
  for (std::size_t end = 2 * part; end <= ends.size(); end += part)
    least = std::min(least, (ends[end - 1] - ends[end - part - 1]) / static_cast<double>(part));
  return least;
}

// Every group has a turn or more in it.
std::size_t part_for(int groups) { return static_cast<std::size_t>(std::max(8, groups)); }

}  // namespace

TunedTraining::TunedTraining(ComputeGroups& groups, DataFeed& train, DataFeed* test,
                             TrainingState state, TrainerOptions options, Workers workers,
                             TunedEvents events, Asynchrony asynchrony)
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
      saved_at_(state_.iteration) {
  options_.strategy = async(asynchrony_, compensation_);
  events_.training.save_checkpoint =
      [this, save = events_.training.save_checkpoint](const TrainingState& at) -> Status {
    if (save) OMNI_CHECK(save(at));
    saved_at_ = at.iteration;
    return {};
  };
  if (state_.tuning && state_.tuning->epoch != 0) {
    say(fmt::format("auto: goes on with {}", describe(setting())));
    say_layout();
  } else if (!state_.tuning) {
    const SolverOptions& solver = groups.net().options().solver;
    state_.tuning = Tuning{.momentum = shortest_decimal(solver.momentum),
                           .learning_rate = shortest_decimal(solver.learning_rate)};
  }
  refused_ = state_.tuning->refused;
  budget_ = state_.tuning->budget;
}

Status TunedTraining::run() { return with_checkpoint(train_and_search()); }

Status TunedTraining::train_and_search() {
  if (state_.tuning->epoch == 0 && left() > 0) OMNI_CHECK(cold_start());
  while (left() > 0) {
    if (state_.iteration < state_.tuning->next_search) {
      OMNI_CHECK(train_until(state_.tuning->next_search));
    } else if (left() < kLeastEpoch) {
      OMNI_CHECK(train_until(state_.iteration + left()));
    } else {
      const std::uint64_t next = epoch(2 * state_.tuning->epoch);
      budget_.grant(state_.iteration, state_.iteration + next);
      OMNI_CHECK(search(search_setting, kUsualTrials, next));
    }
  }
  if (trials_ > 0)
    say(fmt::format("auto: {} trials; what they did not keep took {:.1f} of {:.1f} seconds",
                    trials_, lost_seconds_, seconds_));
  return options_.checkpoint_every != 0 ? save() : Status();
}

// Synchronous: in the beginning, old gradients do the most harm.
Status TunedTraining::cold_start() {
  use(1);
  // While the rate is still rising, a trial would tell nothing about it.
  const auto burn_in = static_cast<std::uint64_t>(groups_.net().options().solver.burn_in);
  if (state_.iteration < burn_in) OMNI_CHECK(train_until(burn_in));
  if (left() == 0) return {};
  if (left() < kLeastEpoch) {
    say(fmt::format("auto: {} iterations are too few for trials ({} are needed): training with {}",
                    left(), kLeastEpoch, describe(setting())));
    train_for(kLeastEpoch);
    return {};
  }
  start_.take(groups_, state_);
  OMNI_CHECK(seconds_per_iteration(1));
  const std::uint64_t first =
      epoch(options_.iterations == 0 ? kFirstEpoch : std::max(kFirstEpoch, left() / kFirstShare));
  budget_.grant(state_.iteration, state_.iteration + first);
  const std::uint64_t warm = state_.iteration + first / kWarmShare;
  OMNI_CHECK(search(search_rate, kColdTrials, 0));
  OMNI_CHECK(train_until(warm));
  OMNI_CHECK(choose_groups());
  return search(search_setting, kUsualTrials, first);
}

Status TunedTraining::choose_groups() {
  const int most = groups_with_room(most_groups_, state_.tuning->momentum);
  if (most == 1) {
    say("auto: starts with 1 compute group, there is room for no more");
    return {};
  }
  start_.take(groups_, state_);
  OMNI_TRY(const Saturation found,
           smallest_saturating(most, [this](int groups) { return seconds_per_iteration(groups); }));
  std::string times;
  for (const auto& [groups, seconds] : found.timings)
    times += fmt::format("{}{:.2f} ms with {}", times.empty() ? "" : ", ", 1e3 * seconds, groups);
  say(fmt::format("auto: starts with {} compute group{} (per iteration: {})", found.groups,
                  found.groups == 1 ? "" : "s", times));
  if (events_.on_groups) events_.on_groups(found, state_.iteration);
  use(found.groups);
  for (const auto& [groups, seconds] : found.timings)
    if (groups == found.groups) seconds_per_iteration_ = seconds;
  return {};
}

Status TunedTraining::search(Search around, std::uint64_t usual_trials, std::uint64_t then) {
  start_.take(groups_, state_);
  const Setting before = setting();
  const std::uint64_t iterations = budget_.trial_length(usual_trials);
  std::vector<Trial> trials;
  const Result<Setting> found =
      around(before,
             {.run = [&](const Setting& each) { return run_trial(each, iterations); },
              .keep = [this] { std::swap(best_, trained_); },
              .can_afford_more = [this] { return budget_.can_afford_more(); },
              .refused = refused_},
             trials);
  for (Trial& trial : trials)
    if (trial.reason.empty()) trial.reason = "stopped before there was a choice";
  if (events_.on_search) events_.on_search(trials, state_.iteration);
  if (!found) {
    roll_back(before.groups);
    if (found.error().kind == ErrorKind::interrupted) return stopped();
    if (found.error().kind != ErrorKind::diverged || state_.tuning->epoch == 0)
      return found.error();
    say(fmt::format("auto: all trials diverged; goes on with {}", describe(before)));
    train_for(then);
    return {};
  }
  const Trial& chosen = *std::ranges::find_if(trials, &Trial::chosen);
  for (const Trial& trial : trials)
    if (trial.setting.learning_rate > 2 * chosen.setting.learning_rate)  // not by rounding
      refuse(refused_, trial.setting.groups, trial.setting.learning_rate);
  return adopt(chosen, then);
}

Result<Trial> TunedTraining::run_trial(const Setting& setting, std::uint64_t iterations) {
  Stopwatch time;
  time.start();
  roll_back(setting.groups);
  TrainingState state = state_;
  state.tuning->momentum = setting.momentum;
  state.tuning->learning_rate = setting.learning_rate;
  const std::uint64_t cooling = iterations / kCooling;
  Piece piece = train_piece(state, iterations - cooling, compensation_);
  std::uint64_t done = piece.done;
  if (piece.ended) {
    trained_.at.take(groups_, piece.state);
    trained_.seconds = piece.seconds;
    state = piece.state;
    state.tuning->learning_rate = std::min(step_of(setting), kCoolSteps * step_of(this->setting()));
    state.tuning->momentum = 0;
    piece = train_piece(state, cooling, Compensation::off);
    done += piece.done;
  }
  lose(done, time.seconds());
  if (!piece.ended && piece.ended.error().kind != ErrorKind::diverged) return piece.ended.error();
  Trial trial{.number = ++trials_,
              .setting = setting,
              .iterations = done,
              .seconds = time.seconds(),
              .losses = {},
              .score = {},
              .chosen = false,
              .reason = {}};
  if (piece.ended) {
    trial.losses.assign(piece.losses.begin() + static_cast<std::ptrdiff_t>(cooling / 2),
                        piece.losses.end());
    trial.score = std::accumulate(trial.losses.begin(), trial.losses.end(), 0.0) /
                  static_cast<double>(trial.losses.size());
  }
  say(fmt::format("auto: trial {}: {}: {}, {:.2f} s", trial.number, describe(setting),
                  trial.score ? fmt::format("loss {:.4f}", *trial.score) : "diverged",
                  trial.seconds));
  return trial;
}

TunedTraining::Piece TunedTraining::train_piece(const TrainingState& state,
                                                std::uint64_t iterations,
                                                Compensation compensation) {
  Piece piece;
  piece.losses.resize(iterations);
  Trainer trainer(groups_, train_, nullptr, state,
                  {.until = state.iteration + iterations,
                   .trial = true,
                   .strategy = async(asynchrony_, compensation)},
                  {.on_iteration =
                       [&](const StepReport& at) {
                         piece.losses[at.began - state.iteration] = at.loss;
                         piece.ends.push_back(at.seconds);
                         ++piece.done;
                       },
                   .on_step = {},
                   .on_evaluation = {},
                   .save_checkpoint = {}});
  piece.ended = trainer.run();
  piece.state = trainer.state();
  piece.seconds = trainer.seconds();
  return piece;
}

// At rate 0 nothing diverges.
Result<double> TunedTraining::seconds_per_iteration(int groups) {
  constexpr std::size_t kParts = 3;
  const std::size_t part = part_for(groups);
  Stopwatch time;
  time.start();
  use(groups);
  TrainingState state = state_;
  state.tuning->learning_rate = 0;
  const Piece piece = train_piece(state, kParts * part + drained(groups), compensation_);
  roll_back(1);
  lose(piece.done, time.seconds());
  if (!piece.ended && piece.ended.error().kind == ErrorKind::interrupted) return stopped();
  OMNI_CHECK(Status(piece.ended));
  seconds_per_iteration_ = fastest(std::span(piece.ends).first(kParts * part), part);
  return seconds_per_iteration_;
}

Status TunedTraining::adopt(const Trial& chosen, std::uint64_t then) {
  use(chosen.setting.groups);
  best_.at.restore(groups_);
  const std::uint64_t before = state_.iteration;
  state_ = best_.at.state();
  budget_.keep(state_.iteration - before);
  note_search();
  if (then != 0) train_for(then);
  lost_seconds_ -= best_.seconds;
  seconds_per_iteration_ = best_.seconds / static_cast<double>(state_.iteration - before);
  say(fmt::format("auto: chose trial {}, {}: {}", chosen.number, describe(chosen.setting),
                  chosen.reason));
  say_layout();
  // What was due while the trial ran.
  const auto missed = [&](std::uint64_t every) {
    return every != 0 && before / every != state_.iteration / every;
  };
  if (missed(options_.checkpoint_every))
    if (Status saved = save(); !saved) log::warn("{}; going on", saved.error().message());
  return missed(options_.evaluate_every) && left() > 0 ? evaluate_now() : Status();
}

Status TunedTraining::train_until(std::uint64_t iteration) {
  note_search();
  TrainerOptions options = options_;
  options.until = iteration;
  options.seconds_before = seconds_;
  Trainer trainer(groups_, train_, test_, state_, options, events_.training);
  Status trained = trainer.run();
  const std::uint64_t done = trainer.state().iteration - state_.iteration;
  if (done > 0) seconds_per_iteration_ = (trainer.seconds() - seconds_) / static_cast<double>(done);
  state_ = trainer.state();
  seconds_ = trainer.seconds();
  return trained;
}

Status TunedTraining::evaluate_now() {
  TrainerOptions options = options_;
  options.seconds_before = seconds_;
  return with_checkpoint(
      Trainer(groups_, train_, test_, state_, options, events_.training).evaluate_now());
}

Status TunedTraining::with_checkpoint(Status status) {
  if (!status && status.error().kind == ErrorKind::interrupted) OMNI_CHECK(save());
  return status;
}

Status TunedTraining::save() {
  return saved_at_ == state_.iteration ? Status() : events_.training.save_checkpoint(state_);
}

// Trials are not part of what the user sees. What they took is part of what is saved.
Error TunedTraining::stopped() {
  note_search();
  saved_at_.reset();
  return {ErrorKind::interrupted, "", fmt::format("stopped after iteration {}", state_.iteration),
          "--resume goes on"};
}

void TunedTraining::lose(std::uint64_t iterations, double seconds) {
  budget_.lose(iterations);
  seconds_ += seconds;
  lost_seconds_ += seconds;
}

void TunedTraining::roll_back(int groups) {
  use(groups);
  start_.restore(groups_);
}

void TunedTraining::use(int groups) {
  if (groups_.count() != groups) groups_.use(groups, workers_);
}

void TunedTraining::say(const std::string& line) const {
  if (events_.say) events_.say(line);
}

void TunedTraining::say_layout() {
  const int groups = groups_.count();
  if (groups > 1 && groups != told_groups_)
    say(fmt::format("auto: {} compute groups on workers {}", groups,
                    describe(spread_groups(groups, workers_))));
  told_groups_ = groups;
}

std::uint64_t TunedTraining::left() const {
  if (options_.iterations == 0) return UINT64_MAX;
  return options_.iterations - std::min(options_.iterations, state_.iteration);
}

std::uint64_t TunedTraining::epoch(std::uint64_t wished) const {
  // Nothing is known yet where a checkpoint is resumed just before a search.
  const double most =
      seconds_per_iteration_ > 0 ? kEpochSeconds / seconds_per_iteration_ : INFINITY;
  if (static_cast<double>(wished) > most)
    wished = std::max(kLeastEpoch, static_cast<std::uint64_t>(most));
  return std::min(std::max(wished, kLeastEpoch), left());
}

void TunedTraining::train_for(std::uint64_t epoch) {
  // A rest that is too short for another search belongs to this epoch.
  const bool all = left() < epoch + kLeastEpoch;
  state_.tuning->epoch = epoch;
  state_.tuning->next_search = state_.iteration + (all ? left() : epoch);
}

void TunedTraining::note_search() {
  state_.tuning->refused = refused_;
  state_.tuning->budget = budget_;
}

Setting TunedTraining::setting() const {
  return {groups_.count(), state_.tuning->momentum, state_.tuning->learning_rate};
}

}  // namespace omni
