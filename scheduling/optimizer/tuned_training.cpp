#include "scheduling/optimizer/tuned_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>

#include "runtime/log.hpp"
#include "runtime/shortest_decimal.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/groups/steady_rate.hpp"
#include "scheduling/optimizer/chance.hpp"

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
constexpr std::uint64_t kCooldown = 4;            // 1 / of the training
constexpr std::size_t kLast = 5;                  // losses by which a trial is given up
constexpr std::size_t kPaired = 8;                // losses by which it is behind
constexpr double kExplodes = 1.5;                 // times the loss at chance, or of the start
constexpr double kLearned = 0.98;                 // of the loss at chance
constexpr double kDead = 0.01;                    // of the spread that outputs had
constexpr std::uint64_t kProbesBehind = 256;      // lengths of a trial behind its start
constexpr std::uint64_t kProbesPerIteration = 3;  // a forward pass takes a third
constexpr int kMostReturns = 12;                  // to the last good parameters

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

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Whether the last losses are surely, and by more than 5 %, above those of the same mini-batches.
bool surely_above(std::span<const double> losses, std::span<const double> others) {
  std::vector<double> differences(losses.size());
  std::ranges::transform(losses, others, differences.begin(), std::minus<>());
  const double gap = mean(differences), n = static_cast<double>(differences.size());
  double squares = 0;
  for (const double each : differences) squares += (each - gap) * (each - gap);
  return gap > 0.05 * mean(others) && gap > 4 * std::sqrt(squares / (n - 1) / n);
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
    const SolverOptions& solver = groups.net().options().solver;
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
      if (at.simulated_seconds) *at.simulated_seconds += state_.tuning->simulated;
      return at;
    };
    events_.training.on_step = [shifted, tell = events_.training.on_step](const StepReport& at) {
      if (tell) tell(shifted(at));
    };
    events_.training.on_evaluation =
        [shifted, tell = events_.training.on_evaluation](const EvaluationReport& of) {
          if (tell) tell({shifted(of.at), of.tally});
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

Status TunedTraining::run() { return with_checkpoint(train_and_search()); }

Status TunedTraining::train_and_search() {
  // While the rate is still rising, a trial would tell nothing about it.
  const auto burn_in = static_cast<std::uint64_t>(groups_.net().options().solver.burn_in);
  champion_.at.take(groups_, state_);
  start_ = champion_.at;
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
    say(
        fmt::format("auto: {} trials; what they did not keep took {:.1f} of {:.1f} seconds, {} "
                    "iterations",
                    trials_told_, lost_seconds_, seconds_, state_.tuning->lost));
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
  if (!cold && most_groups_ > 1 && timings_.empty()) OMNI_CHECK(time_groups());
  for (const Saturation::Timing& each : std::views::reverse(timings_))
    if (each.groups != before.groups) plan.more_groups.push_back(each.groups);
  if (!plan.more_groups.empty())
    plan.groups_first =
        seconds_of(before.groups) > kMuchFaster * seconds_of(plan.more_groups.front());
  OMNI_TRY(const Probe now, probe(1));
  spread_ = now.spread;
  loss_at_start_ = now.losses.front();
  start_.restore(groups_);
  const Result<Found> found = omni::search(before, plan, *this);
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

Result<Showing> TunedTraining::challenge(const Setting& setting, std::uint64_t iterations) {
  if (trials_.empty() || !(challenger_.setting == setting) || challenger_.iterations == 0 ||
      trials_.back().setting != setting) {
    challenger_.setting = setting;
    challenger_.iterations = 0;
    challenger_.losses.clear();
    challenger_.seconds = 0;
    challenger_.trial = trials_.size();
    trials_.push_back({.number = ++trials_told_, .setting = setting});
  }
  return advance(challenger_, iterations);
}

Result<Showing> TunedTraining::defend(std::uint64_t iterations) {
  return advance(champion_, iterations);
}

void TunedTraining::promote() { std::swap(champion_, challenger_); }

void TunedTraining::decided(const std::string& reason) {
  // Behind promote() the last challenger is the champion.
  Trial& trial = trials_.back();
  trial.reason = reason;
  say(fmt::format("auto: trial {}: {}: {}, {:.2f} s: {}", trial.number, describe(trial.setting),
                  trial.showing.said(), trial.seconds, reason));
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

Result<Showing> TunedTraining::advance(Entrant& entrant, std::uint64_t iterations) {
  Stopwatch time;
  time.start();
  // With groups that are faster, as many iterations as take the same time.
  if (entrant.setting.groups != start_groups_)
    iterations =
        static_cast<std::uint64_t>(static_cast<double>(iterations) * seconds_of(start_groups_) /
                                   seconds_of(entrant.setting.groups));
  use(entrant.setting.groups);
  const bool first = entrant.iterations == 0;
  (first ? start_ : entrant.at).restore(groups_);
  TrainingState state = (first ? start_ : entrant.at).state();
  state.tuning->momentum = entrant.setting.momentum;
  state.tuning->learning_rate = entrant.setting.learning_rate;
  std::vector<double>& losses = entrant.losses;
  const std::size_t before = losses.size();
  losses.resize(before + iterations - entrant.iterations);
  const bool smaller = &entrant == &challenger_ &&
                       entrant.setting.groups == champion_.setting.groups &&
                       2 * step_of(entrant.setting) < step_of(champion_.setting);
  Fate fate = Fate::diverged;
  const auto is_lost = [&](std::uint64_t done) {
    const auto last = [&](const std::vector<double>& all, std::size_t count) {
      return std::span(all).subspan(before + done - count, count);
    };
    if (done < kPaired) return false;
    if (mean(last(losses, kLast)) > kExplodes * std::max(chance_, loss_at_start_)) return true;
    if (!smaller || done % kPaired != 0 || before + done > champion_.losses.size()) return false;
    const auto others = last(champion_.losses, kPaired);
    if (mean(others) > 0.9 * chance_ || !surely_above(last(losses, kPaired), others)) return false;
    fate = Fate::behind;
    return true;
  };
  Piece piece = train_piece(state, {.iterations = iterations - entrant.iterations},
                            std::span(losses).subspan(before), is_lost);
  entrant.seconds += piece.seconds;
  std::uint64_t spent = piece.done;
  Showing showing{fate};
  if (piece.ended) {
    entrant.at.take(groups_, piece.state);
    entrant.iterations = iterations;
    OMNI_TRY(showing, show(piece.state, iterations, spent));
  } else {
    entrant.iterations = 0;
  }
  // The budget is meant in iterations of the training as it was.
  lose(static_cast<std::uint64_t>(static_cast<double>(spent) * seconds_of(entrant.setting.groups) /
                                  seconds_of(start_groups_)),
       time.seconds());
  if (!piece.ended && piece.ended.error().kind != ErrorKind::diverged) return piece.ended.error();
  Trial& trial = trials_[entrant.trial];
  trial.iterations += spent;
  trial.seconds += time.seconds();
  trial.showing = showing;
  return showing;
}

// Behind a cooldown, on mini-batches that no trial trains on.
Result<Showing> TunedTraining::show(TrainingState state, std::uint64_t iterations,
                                    std::uint64_t& spent) {
  const std::uint64_t cooldown = cooldown_of(iterations);
  std::vector<double> losses(cooldown);
  const Piece piece = train_piece(state, {.iterations = cooldown, .cooldown = true}, losses);
  spent += piece.done;
  if (!piece.ended) {
    if (piece.ended.error().kind != ErrorKind::diverged) return piece.ended.error();
    return Showing{};
  }
  OMNI_TRY(Probe probe, this->probe(probes()));
  spent += probes() / kProbesPerIteration;
  state_.tuning->simulated += piece.simulated / static_cast<double>(cooldown) *
                              static_cast<double>(probes()) / kProbesPerIteration;
  Showing showing{Fate::learns, std::move(probe.losses)};
  if (showing.loss() < kLearned * chance_) return showing;
  if (!(showing.loss() < kExplodes * std::max(chance_, loss_at_start_))) return Showing{};
  showing.fate = probe.spread < kDead * spread_ ? Fate::dead : Fate::at_chance;
  return showing;
}

// The losses of mini-batches far behind the start of the search, as in training, but without the
// way back, and how much the outputs differ between images: the largest range of any class.
Result<TunedTraining::Probe> TunedTraining::probe(std::uint64_t count) {
  Net& net = groups_.net();
  const auto batch = static_cast<std::uint64_t>(net.options().batch);
  const auto classes = static_cast<std::size_t>(net.classes());
  const auto sample = [&](std::uint64_t number) {
    return (start_.state().iteration + kProbesBehind * length() + number) * batch;
  };
  Probe probe;
  std::vector<float> least(classes, INFINITY), most(classes, -INFINITY);
  net.read_masters(true);
  train_.submit(sample(0));
  for (std::uint64_t number = 0; number < count; ++number) {
    if (number + 1 < count) train_.submit(sample(number + 1));
    const BatchSlot& slot = train_.slot(sample(number));
    net.forward({.training = true,
                 .seed = state_.seed,
                 .first_sample = sample(number),
                 .slot = &train_.slot(sample(number))});
    Tally tally;
    tally.add(slot);
    probe.losses.push_back(tally.mean_loss());
    for (int slice = 0; slice < net.slices().count(); ++slice) {
      const std::vector<float> outputs =
          HostAccess(net.output(slice), HostAccess::Mode::read).values();
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        least[i % classes] = std::min(least[i % classes], outputs[i]);
        most[i % classes] = std::max(most[i % classes], outputs[i]);
      }
    }
    train_.release(sample(number));
  }
  net.read_masters(false);
  OMNI_CHECK(wait_for_tasks());
  for (std::size_t i = 0; i < classes; ++i)
    probe.spread = std::max(probe.spread, static_cast<double>(most[i] - least[i]));
  return probe;
}

TunedTraining::Piece TunedTraining::train_piece(const TrainingState& state,
                                                const PieceOptions& options,
                                                std::span<double> losses, const IsLost& is_lost) {
  Piece piece;
  const std::uint64_t until = state.iteration + options.iterations;
  TrainingState from = state;
  set_clock(from);
  const double before = clock_ ? clock_->now() : 0;
  Trainer trainer(groups_, train_, nullptr, from,
                  {.until = until,
                   .trial = true,
                   .cool_from = options.cooldown ? state.iteration : UINT64_MAX,
                   .cool_until = until,
                   .strategy = async(asynchrony_, options.compensation),
                   .clock = clock_.get(),
                   .exchange_seconds = options_.exchange_seconds},
                  {.on_iteration =
                       [&](const StepReport& at) {
                         losses[at.began - state.iteration] = at.loss;
                         piece.ends.push_back(at.seconds);
                         ++piece.done;
                       },
                   .is_lost = [&](double) { return is_lost && is_lost(piece.done); },
                   .on_step = {},
                   .on_evaluation = {},
                   .save_checkpoint = {}});
  piece.ended = trainer.run();
  piece.state = trainer.state();
  piece.seconds = trainer.seconds();
  piece.simulated = clock_ ? clock_->now() - before : 0;
  return piece;
}

// Numbers of groups, for as long as each is clearly faster than the one before.
Status TunedTraining::time_groups() {
  OMNI_TRY(const Saturation found, smallest_saturating(most_groups_, [this](int groups) {
             return seconds_per_iteration(groups);
           }));
  std::string times;
  for (const auto& [groups, seconds] : found.timings)
    times += fmt::format("{}{:.2f} ms with {}", times.empty() ? "" : ", ", 1e3 * seconds, groups);
  say(fmt::format("auto: per iteration {}: trials with up to {} compute group{}", times,
                  found.groups, found.groups == 1 ? "" : "s"));
  if (events_.on_groups) events_.on_groups(found, state_.iteration);
  timings_ = found.timings;
  std::erase_if(timings_, [&](const auto& each) { return each.groups > found.groups; });
  return {};
}

double TunedTraining::seconds_of(int groups) const {
  const auto timed = std::ranges::find(timings_, groups, &Saturation::Timing::groups);
  return timed != timings_.end() ? timed->seconds : 1;
}

// At rate 0 nothing diverges.
Result<double> TunedTraining::seconds_per_iteration(int groups) {
  if (make_clock_) return simulated_seconds(groups);
  constexpr std::size_t kParts = 3;
  const std::size_t part = part_for(groups), count = kParts * part + drained(groups);
  Stopwatch time;
  time.start();
  const int before = groups_.count();
  use(groups);
  TrainingState state = state_;
  state.tuning->learning_rate = state.tuning->momentum = 0;
  std::vector<double> losses(count);
  const Piece piece =
      train_piece(state, {.iterations = count, .compensation = Compensation::off}, losses);
  use(before);
  start_.restore(groups_);
  lose(piece.done, time.seconds());
  if (!piece.ended && piece.ended.error().kind == ErrorKind::interrupted) return stopped();
  OMNI_CHECK(Status(piece.ended));
  return fastest(std::span(piece.ends).first(kParts * part), part);
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
  if (missed(options_.checkpoint_every))
    if (Status saved = save(); !saved) log::warn("{}; going on", saved.error().message());
  return missed(options_.evaluate_every) && left() > 0 ? evaluate_now() : Status();
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
  tuning.highest_step = step_of(setting());
  tuning.learning_rate /= 2;
  const bool early = state_.iteration + 4 * length() < cooldown_start();
  if (tuning.next_search != UINT64_MAX && early) tuning.next_search = state_.iteration;
  log::warn("{}: back to the parameters of iteration {}, with half the learning rate", error.what,
            start_.state().iteration);
  return {};
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
  saved_at_.reset();
  return {ErrorKind::interrupted, "", fmt::format("stopped after iteration {}", state_.iteration),
          "--resume goes on"};
}

void TunedTraining::lose(std::uint64_t iterations, double seconds) {
  state_.tuning->lost += iterations;
  seconds_ += seconds;
  lost_seconds_ += seconds;
}

void TunedTraining::use(int groups) {
  if (groups_.count() != groups) groups_.use(groups, workers_);
}

// A training that goes on where the clock stands takes it. Else another begins, and what the last
// one counted is kept. That of a checkpoint takes its time from the arrivals.
void TunedTraining::set_clock(TrainingState& state) {
  if (!make_clock_) return;
  const bool fits =
      state.arrivals && state.arrivals->samples.size() == static_cast<std::size_t>(groups_.count());
  if (fits && clock_ && clock_->state() == state.arrivals->clock) return;
  if (!fits || clock_) state.arrivals.reset();
  state_.tuning->simulated += clock_ ? clock_->now() : 0;
  clock_ = make_clock_(groups_.count());
}

// Per iteration.
double TunedTraining::simulated_seconds(int groups) const {
  constexpr int kUpdates = 50;  // of each group
  const std::unique_ptr<VirtualClock> clock = make_clock_(groups);
  const auto batch = static_cast<std::uint64_t>(groups_.net().options().batch);
  for (int group = 0; group < groups; ++group)
    clock->begin(group, batch, options_.exchange_seconds);
  for (int update = 0; update < kUpdates * groups; ++update)
    clock->begin(clock->next(), batch, options_.exchange_seconds);
  return clock->now() / (kUpdates * groups);
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
  if (options_.iterations == 0) return UINT64_MAX - state_.iteration;
  return options_.iterations - std::min(options_.iterations, state_.iteration);
}

std::uint64_t TunedTraining::horizon() const {
  return options_.iterations != 0 ? options_.iterations
                                  : std::max(kShortest, kOutlook * state_.iteration);
}

// A policy that lowers the rate needs no other.
std::uint64_t TunedTraining::cooldown_start() const {
  const bool constant = groups_.net().options().solver.policy == RatePolicy::constant;
  if (options_.iterations == 0 || !constant) return UINT64_MAX;
  return options_.iterations - options_.iterations / kCooldown;
}

std::uint64_t TunedTraining::length() const {
  if (state_.tuning->warm) return std::clamp<std::uint64_t>(horizon() / 100, kShortestTrial, 2000);
  // While nothing learns, trials get longer.
  return std::clamp<std::uint64_t>(std::max(horizon() / 200, state_.iteration / 16), kShortestTrial,
                                   400);
}

std::uint64_t TunedTraining::probes() const {
  return std::clamp<std::uint64_t>(256 / static_cast<std::uint64_t>(groups_.net().options().batch),
                                   6, 12);
}

std::uint64_t TunedTraining::window() const {
  return std::clamp<std::uint64_t>(1024 / static_cast<std::uint64_t>(groups_.net().options().batch),
                                   16, 64);
}

std::uint64_t TunedTraining::stretch() const {
  return std::max<std::uint64_t>(2 * window(), state_.iteration / 8);
}

Setting TunedTraining::setting() const {
  return {groups_.count(), state_.tuning->momentum, state_.tuning->learning_rate};
}

}  // namespace omni
