#include "scheduling/pilots/tuning/trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/communicator/ranks.hpp"
#include "runtime/number_in.hpp"
#include "scheduling/groups/rank_sums.hpp"
#include "scheduling/pilots/loss_mean.hpp"
#include "scheduling/training/metrics_log.hpp"

namespace omni {
namespace {

constexpr std::size_t kLast = 5;    // number of last losses that show a trial has diverged
constexpr std::size_t kPaired = 8;  // number of last losses that show a trial is behind
constexpr double kExplodes = 1.5;   // factor of the loss at chance or at the start
constexpr double kDead = 0.01;      // share of the spread that outputs had at the start
constexpr double kLearned = 0.98;   // a loss below this share of chance: something is learned
constexpr std::uint64_t kProbesBehind = 256;  // distance of probes from the start, in trial lengths

nlohmann::ordered_json line_of(const Trial& trial, std::uint64_t iteration) {
  nlohmann::ordered_json line{{"iteration", iteration},
                              {"trial", trial.number},
                              {"groups", trial.setting.groups},
                              {"momentum", metrics_number(trial.setting.momentum)},
                              {"learning_rate", metrics_number(trial.setting.learning_rate)},
                              {"iterations", trial.iterations},
                              {"seconds", metrics_number(trial.seconds)}};
  if (trial.result.losses.empty()) {
    line[trial.result.end == TrialEnd::behind ? "behind" : "diverged"] = true;
  } else {
    line["score"] = metrics_number(trial.result.loss());
    line["score_error"] = metrics_number(trial.result.error());
  }
  line["chosen"] = trial.chosen;
  line["reason"] = trial.reason;
  return line;
}

}  // namespace

bool may_be_behind(double step, double champion, double failing_step) {
  return 2 * step < champion && champion < failing_step / kEdge;
}

bool is_behind(std::span<const double> losses, std::span<const double> champion, double chance) {
  const double level = mean_of(champion).mean;
  LossMean gap;
  for (std::size_t i = 0; i < losses.size(); ++i) gap.add(losses[i] - champion[i]);
  return level <= 0.9 * chance && gap.mean > 0.05 * level && gap.mean > 4 * gap.error();
}

Result<Found> Trials::search(const Setting& given, SearchPlan plan, const Budget& budget) {
  ComputeGroups& groups = training_.groups();
  const std::uint64_t iteration = training_.state().iteration;
  budget_ = budget;
  plan.length = budget.length;
  start_groups_ = given.groups;
  OMNI_CHECK(take(start_, training_.state()));
  trials_.clear();
  // Without a replicated phase more groups are not faster.
  const bool several = groups.most() > 1 && groups.net().has(Net::Phase::replicated);
  // A cold search tries no other numbers of groups. With a virtual clock timing costs nothing, and
  // the speedup can bring the next search forward.
  const bool times = !plan.cold || training_.options().make_clock;
  if (times && several && timed_.timings.empty()) OMNI_CHECK(time_groups());
  for (auto timing = timed_.timings.rbegin(); timing != timed_.timings.rend(); ++timing)
    if (!plan.cold && timing->groups <= timed_.groups && timing->groups != given.groups)
      plan.more_groups.push_back(timing->groups);
  OMNI_TRY(const Probe now, probe(1));
  spread_ = now.spread;
  loss_at_start_ = now.losses.front();
  plan.chance = chance_;
  failing_step_ = plan.failing_step;
  start_.restore(groups);
  Result<Found> found = omni::search(given, plan, *this);
  for (Trial& trial : trials_) {
    trial.chosen = found && trial.setting == found->setting;
    if (trial.reason.empty()) trial.reason = "stopped before there was a choice";
    training_.record(line_of(trial, iteration));
  }
  const bool kept = found && found->setting == champion_.setting;
  if (kept) {
    lost -= std::min(lost, at_start(champion_.iterations, champion_.setting.groups));
    lost_seconds -= champion_.seconds;
  }
  training_.record({{"iteration", iteration}, {"discarded_iterations", lost}});
  const Setting& chosen = found ? found->setting : given;
  OMNI_CHECK(training_.use_groups(chosen.groups));
  (kept ? champion_.at : start_).restore(groups);
  for (TrainingSnapshot* each : {&start_, &champion_.at}) each->drop_replicas();
  if (!kept) champion_.at = start_;
  return found;
}

Result<StepSweep> Trials::sweep(double first_step, double factor, std::size_t most) {
  constexpr std::size_t kProbed = 5;  // iterations between two probes of the outputs
  Stopwatch time;
  start_.restore(training_.groups());
  TrainingState state = start_.state();
  StepSweep sweep{.first = first_step, .factor = factor};
  std::uint64_t done = 0;  // iterations
  Status failed;
  while (failed && sweep.losses.size() < most && !step_range(sweep, chance_).fails) {
    const double step = first_step * std::pow(factor, std::ssize(sweep.losses));
    double loss = 0;
    const Piece piece =
        train_piece(state, {&loss, 1},
                    {.learning_rate = step * (1 - kSweepMomentum), .momentum = kSweepMomentum});
    state = piece.state;
    ++done;
    sweep.losses.push_back(loss);
    sweep.diverged = !piece.ended;
    failed = piece.ended;
    if (sweep.diverged) sweep.losses.pop_back();
    if (sweep.diverged || sweep.losses.size() % kProbed != 0) continue;
    OMNI_TRY(const Probe now, probe(1));
    sweep.diverged = now.spread < kDead * spread_;
  }
  lose(done + done / kProbed / kProbesPerIteration, time.seconds());
  if (!failed && failed.error().kind != ErrorKind::diverged) return failed.error();
  return sweep;
}

void Trials::swept(const StepSweep& sweep, const StepRange& range) {
  failing_step_ = range.fails.value_or(INFINITY);
  const double last = sweep.first * std::pow(sweep.factor, std::ssize(sweep.losses));
  training_.say(fmt::format(
      "auto: {} iterations with a step from {:.2g} on, growing: {}; {} {:.2g}", sweep.losses.size(),
      sweep.first,
      range.best ? fmt::format("the loss is lowest at {:.2g}", *range.best) : "nothing is learned",
      range.fails ? "it diverges at" : "it does not diverge up to", range.fails.value_or(last)));
  training_.record({{"iteration", start_.state().iteration},
                    {"swept_from", metrics_number(sweep.first)},
                    {"iterations", sweep.losses.size()},
                    {"best_step", metrics_number(range.best.value_or(NAN))},
                    {"failing_step", metrics_number(range.fails.value_or(NAN))}});
}

const TrainingSnapshot& Trials::saved(Saved which) const {
  return which == older ? start_ : which == newer ? champion_.at : before_search_;
}

std::vector<std::shared_ptr<const TrainingSnapshot>> Trials::kept() const {
  std::vector<std::shared_ptr<const TrainingSnapshot>> all;
  for (const Saved which : {older, newer, before_search})
    all.emplace_back(std::shared_ptr<const void>(), &saved(which));  // the pointer owns nothing
  return all;
}

void Trials::take(std::span<const std::shared_ptr<const TrainingSnapshot>> kept) {
  start_ = *kept[older];
  champion_.at = *kept[newer];
  before_search_ = *kept[before_search];
}

Status Trials::take(TrainingSnapshot& into, const TrainingState& state, bool with_replicas) {
  ComputeGroups& groups = training_.groups();
  if (groups.sums != nullptr) OMNI_CHECK(groups.sums->share_memory());
  into.take(groups, state, with_replicas && groups.sums == nullptr);
  return {};
}

Status Trials::keep() {
  std::swap(start_, champion_.at);
  return take(champion_.at, training_.state(), false);
}

Status Trials::keep_before_search() {
  OMNI_CHECK(take(before_search_, training_.state(), false));
  start_ = champion_.at = before_search_;
  return {};
}

void Trials::discard_champion() {
  lost += at_start(champion_.iterations, champion_.setting.groups);
  lost_seconds += champion_.seconds;
}

void Trials::go_back(Saved which) {
  saved(which).restore(training_.groups());
  if (which != older) start_ = saved(which);
  champion_.at = start_;
}

Result<TrialResult> Trials::challenge(const Setting& setting, std::uint64_t iterations) {
  if (trials_.empty() || !(challenger_.setting == setting) || challenger_.iterations == 0 ||
      trials_.back().setting != setting) {
    challenger_ = {.setting = setting, .at = std::move(challenger_.at), .trial = trials_.size()};
    trials_.push_back({.number = ++trial_count_, .setting = setting});
  }
  return advance(challenger_, iterations);
}

void Trials::decided(const std::string& reason) {
  Trial& trial = trials_.back();
  trial.reason = reason;
  training_.say(fmt::format("auto: trial {}: {}: {}, {:.2f} s: {}", trial.number,
                            describe(trial.setting), trial.result.text(), trial.seconds, reason));
}

Result<TrialResult> Trials::advance(TrialRun& run, std::uint64_t iterations) {
  Stopwatch time;
  const Setting& setting = run.setting;
  // With another number of groups, a trial takes as long as it would with the number at the start,
  // so its iterations are scaled.
  if (setting.groups != start_groups_)
    iterations = static_cast<std::uint64_t>(static_cast<double>(iterations) *
                                            seconds_of(start_groups_) / seconds_of(setting.groups));
  OMNI_CHECK(training_.use_groups(setting.groups));
  const TrainingSnapshot& from = run.iterations == 0 ? start_ : run.at;
  from.restore(training_.groups());
  std::vector<double>& losses = run.losses;
  if (run.iterations == 0) losses.clear();
  const std::size_t before = losses.size();
  losses.resize(before + iterations - run.iterations);
  const bool smaller = &run == &challenger_ && setting.groups == champion_.setting.groups &&
                       may_be_behind(step_of(setting), step_of(champion_.setting), failing_step_);
  TrialEnd end = TrialEnd::diverged;
  const auto is_lost = [&](std::uint64_t done) {
    const auto last = [&](const std::vector<double>& all, std::size_t count) {
      return std::span(all).subspan(before + done - count, count);
    };
    if (done < kPaired) return false;
    if (mean_of(last(losses, kLast)).mean > kExplodes * std::max(chance_, loss_at_start_))
      return true;
    if (!smaller || done % kPaired != 0 || before + done > champion_.losses.size()) return false;
    if (!is_behind(last(losses, kPaired), last(champion_.losses, kPaired), chance_)) return false;
    end = TrialEnd::behind;
    return true;
  };
  const Piece piece =
      train_piece(from.state(), std::span(losses).subspan(before),
                  {.learning_rate = setting.learning_rate, .momentum = setting.momentum}, is_lost);
  run.seconds += piece.seconds;
  std::uint64_t spent = piece.done;
  TrialResult result{end};
  if (piece.ended) {
    OMNI_CHECK(take(run.at, piece.state));
    run.iterations = iterations;
    OMNI_TRY(result, evaluate(run, piece.state, iterations, spent));
  } else {
    losses.resize(before);  // those up to run.at
    run.iterations = 0;
  }
  // The budget counts iterations as if they had the number of groups at the start of the search.
  lose(at_start(spent, setting.groups), time.seconds());
  if (!piece.ended && piece.ended.error().kind != ErrorKind::diverged) return piece.ended.error();
  Trial& trial = trials_[run.trial];
  trial.iterations += spent;
  trial.seconds += time.seconds();
  trial.result = result;
  return result;
}

// Trains the cooldown, in which the rate falls to 0. Then computes the loss on mini-batches that no
// trial trains on.
Result<TrialResult> Trials::evaluate(const TrialRun& run, TrainingState state,
                                     std::uint64_t iterations, std::uint64_t& spent) {
  const std::uint64_t cooldown = cooldown_of(iterations);
  std::vector<double> losses(cooldown);
  const Piece piece = train_piece(state, losses,
                                  {.learning_rate = run.setting.learning_rate,
                                   .momentum = run.setting.momentum,
                                   .cooldown = true});
  spent += piece.done;
  if (!piece.ended) {
    if (piece.ended.error().kind != ErrorKind::diverged) return piece.ended.error();
    return TrialResult{};
  }
  OMNI_TRY(Probe probe, this->probe(probes()));
  spent += probes() / kProbesPerIteration;
  training_.state().simulated_before += piece.simulated / static_cast<double>(cooldown) *
                                        static_cast<double>(probes()) / kProbesPerIteration;
  TrialResult result{TrialEnd::learns, std::move(probe.losses)};
  if (result.loss() < kLearned * chance_) return result;
  if (!(result.loss() < kExplodes * std::max(chance_, loss_at_start_))) return TrialResult{};
  result.end = probe.spread < kDead * spread_                         ? TrialEnd::dead
               : surely_above_chance(mean_of(result.losses), chance_) ? TrialEnd::above_chance
                                                                      : TrialEnd::at_chance;
  return result;
}

// Computes the loss on `count` mini-batches that come so long after the start of the search that no
// trial trains on them.
Result<Probe> Trials::probe(std::uint64_t count) {
  const std::uint64_t behind = start_.state().iteration + kProbesBehind * budget_.length;
  return omni::probe(training_.groups().net(), training_.feed(), start_.state().seed,
                     behind * batch(), count);
}

Trials::Piece Trials::train_piece(const TrainingState& from, std::span<double> losses,
                                  const PieceOptions& options, const IsLost& is_lost) {
  const std::uint64_t until = from.iteration + losses.size();
  Piece piece{.state = from};
  const MakeClock& make_clock = training_.options().make_clock;
  const auto clock = make_clock ? make_clock(training_.groups().count()) : nullptr;
  Stopwatch time;
  bool stops = false;  // a rank was asked to stop
  const auto judge = [&](const FinishedUpdate& finished) {
    stops = stops || finished.outcome.stops;
    losses[finished.batch.number - from.iteration] = finished.outcome.tally.mean_loss();
    piece.ends.push_back(time.seconds());
    ++piece.done;
    return is_lost && is_lost(piece.done) ? Advice::go_back : Advice::go_on;
  };
  {
    TrainingLoop loop(training_.groups(), training_.feed(), piece.state,
                      {.solver = training_.solver(),
                       .steering = {.momentum = options.momentum,
                                    .learning_rate = options.learning_rate,
                                    .cool_from = options.cooldown ? from.iteration : UINT64_MAX,
                                    .cool_until = until},
                       .strategy = async(asynchrony_, options.compensation),
                       .clock = clock.get(),
                       .last_sample = until * batch(),
                       .traced = false,
                       .judge = judge,
                       .must_stop = [&] { return ranks::several() ? stops : stop_requested(); }});
    const double before = clock ? clock->now() : 0;
    piece.ended = loop.train_to(until * batch());
    // After other errors only this rank ends, while the others wait for its messages.
    if (!piece.ended && piece.ended.error().kind != ErrorKind::diverged &&
        piece.ended.error().kind != ErrorKind::interrupted)
      ranks::leave_for(piece.ended.error());
    loop.note();
    piece.simulated = clock ? clock->now() - before : 0;
  }
  piece.seconds = time.seconds();
  training_.state().simulated_before += piece.simulated;
  return piece;
}

void Trials::lose(std::uint64_t iterations, double seconds) {
  lost += iterations;
  training_.add_seconds(seconds);
  lost_seconds += seconds;
}

}  // namespace omni
