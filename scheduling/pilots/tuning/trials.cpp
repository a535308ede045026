// The trials of --auto: how one trains, and what it shows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scheduling/forecast/steady_seconds.hpp"
#include "scheduling/forecast/update_forecast.hpp"
#include "scheduling/pilots/loss_mean.hpp"
#include "scheduling/pilots/tuning/tuned_training.hpp"

namespace omni {
namespace {

constexpr std::size_t kLast = 5;              // losses by which a trial is given up
constexpr std::size_t kPaired = 8;            // losses by which it is behind
constexpr double kExplodes = 1.5;             // times the loss at chance, or of the start
constexpr double kDead = 0.01;                // of the spread that outputs had
constexpr std::uint64_t kProbesBehind = 256;  // lengths of a trial behind its start

// Seconds per iteration. The first part of them fills the pipeline; of the others the fastest
// counts, as other programs may have slowed some of them down. There are two parts or more.
double fastest(std::span<const double> ends, std::size_t part) {
  double least = INFINITY;
  for (std::size_t end = 2 * part; end <= ends.size(); end += part)
    least = std::min(least, (ends[end - 1] - ends[end - part - 1]) / static_cast<double>(part));
  return least;
}

// Every group has a turn or more in it.
std::size_t part_for(int groups) { return std::max(8, groups); }

// Whether the last losses are surely, and by more than 5 %, above those of the same mini-batches.
bool surely_above(std::span<const double> losses, std::span<const double> others) {
  LossMean gap;
  for (std::size_t i = 0; i < losses.size(); ++i) gap.add(losses[i] - others[i]);
  return gap.mean > 0.05 * mean_of(others).mean && gap.mean > 4 * gap.error();
}

}  // namespace

Result<Showing> TunedTraining::challenge(const Setting& setting, std::uint64_t iterations) {
  if (trials_.empty() || !(challenger_.setting == setting) || challenger_.iterations == 0 ||
      trials_.back().setting != setting) {
    challenger_ = {.setting = setting, .at = std::move(challenger_.at), .trial = trials_.size()};
    trials_.push_back({.number = ++trials_told_, .setting = setting});
  }
  return advance(challenger_, iterations);
}

void TunedTraining::decided(const std::string& reason) {
  // Behind promote() the last challenger is the champion.
  Trial& trial = trials_.back();
  trial.reason = reason;
  say(fmt::format("auto: trial {}: {}: {}, {:.2f} s: {}", trial.number, describe(trial.setting),
                  trial.showing.said(), trial.seconds, reason));
}

Result<Showing> TunedTraining::advance(Entrant& entrant, std::uint64_t iterations) {
  Stopwatch time;
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
    if (mean_of(last(losses, kLast)).mean > kExplodes * std::max(chance_, loss_at_start_))
      return true;
    if (!smaller || done % kPaired != 0 || before + done > champion_.losses.size()) return false;
    const auto others = last(champion_.losses, kPaired);
    if (mean_of(others).mean > 0.9 * chance_ || !surely_above(last(losses, kPaired), others))
      return false;
    fate = Fate::behind;
    return true;
  };
  const Piece piece = train_piece(state, std::span(losses).subspan(before), {}, is_lost);
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
  const Piece piece = train_piece(state, losses, {.cooldown = true});
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

// On mini-batches far behind the start of the search.
Result<Probe> TunedTraining::probe(std::uint64_t count) {
  const std::uint64_t behind = start_.state().iteration + kProbesBehind * length();
  return omni::probe(groups_.net(), train_, state_.seed, behind * groups_.net().options().batch,
                     count);
}

TunedTraining::Piece TunedTraining::train_piece(const TrainingState& state,
                                                std::span<double> losses,
                                                const PieceOptions& options,
                                                const IsLost& is_lost) {
  Piece piece;
  const std::uint64_t until = state.iteration + losses.size();
  TrainingState from = state;
  set_clock(from);
  const double before = clock_ ? clock_->now() : 0;
  Trainer trainer(groups_, train_, nullptr, from,
                  {.solver = options_.solver,
                   .until = until,
                   .trial = true,
                   .cool_from = options.cooldown ? state.iteration : UINT64_MAX,
                   .cool_until = until,
                   .strategy = async(asynchrony_, options.compensation),
                   .clock = clock_.get()},
                  {.on_iteration =
                       [&](const StepReport& at) {
                         losses[at.began - state.iteration] = at.loss;
                         piece.ends.push_back(at.seconds);
                         ++piece.done;
                       },
                   .is_lost = [&](double) { return is_lost && is_lost(piece.done); }});
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
  timed_ = found;
  // Those in use are compared with, even where they are too many.
  if (std::ranges::find(timed_.timings, start_groups_, &Saturation::Timing::groups) ==
      timed_.timings.end()) {
    OMNI_TRY(const double seconds, seconds_per_iteration(start_groups_));
    timed_.timings.push_back({start_groups_, seconds});
    std::ranges::sort(timed_.timings, {}, &Saturation::Timing::groups);
  }
  std::string times;
  for (const auto& [groups, seconds] : timed_.timings)
    times += fmt::format("{}{:.2f} ms with {}", times.empty() ? "" : ", ", 1e3 * seconds, groups);
  say(fmt::format("auto: per iteration {}: trials with up to {} compute group{}", times,
                  found.groups, found.groups == 1 ? "" : "s"));
  if (events_.on_groups) events_.on_groups(timed_, state_.iteration);
  return {};
}

// Before numbers of groups are timed there is only one.
double TunedTraining::seconds_of(int groups) const {
  const auto timed = std::ranges::find(timed_.timings, groups, &Saturation::Timing::groups);
  return timed != timed_.timings.end() ? timed->seconds : 1;
}

// At rate 0 nothing diverges.
Result<double> TunedTraining::seconds_per_iteration(int groups) {
  if (make_clock_) return simulated_seconds(groups);
  constexpr std::size_t kParts = 3;
  const std::size_t part = part_for(groups), count = kParts * part + drained(groups);
  Stopwatch time;
  const int before = groups_.count();
  use(groups);
  TrainingState state = state_;
  state.tuning->learning_rate = state.tuning->momentum = 0;
  std::vector<double> losses(count);
  const Piece piece = train_piece(state, losses, {.compensation = Compensation::off});
  use(before);
  start_.restore(groups_);
  lose(piece.done, time.seconds());
  if (!piece.ended && piece.ended.error().kind == ErrorKind::interrupted) return stopped();
  OMNI_CHECK(Status(piece.ended));
  return fastest(std::span(piece.ends).first(kParts * part), part);
}

void TunedTraining::lose(std::uint64_t iterations, double seconds) {
  state_.tuning->lost += iterations;
  seconds_ += seconds;
  lost_seconds_ += seconds;
}

// Per iteration.
double TunedTraining::simulated_seconds(int groups) const {
  const std::unique_ptr<VirtualClock> clock = make_clock_(groups);
  return forecast_updates(*clock, {}, groups_.net().options().batch).seconds;
}

}  // namespace omni
