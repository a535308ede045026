#include "scheduling/training/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "runtime/communicator/ranks.hpp"
#include "runtime/log.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/pilots/health/health_check.hpp"
#include "scheduling/training/rate_policy.hpp"

namespace omni {

namespace {

SolverOptions tuned(SolverOptions solver, const std::optional<Tuning>& tuning,
                    std::uint64_t schedule) {
  if (schedule != 0) solver = for_length(std::move(solver), schedule);
  if (tuning) {
    solver.learning_rate = static_cast<float>(tuning->learning_rate);
    solver.momentum = static_cast<float>(tuning->momentum);
  }
  return solver;
}

}  // namespace

Trainer::Trainer(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
                 TrainerOptions options, TrainerEvents events)
    : groups_(groups),
      net_options_(groups.net().options()),
      solver_(tuned(net_options_.solver, state.tuning, options.schedule)),
      test_(test),
      state_(std::move(state)),
      options_(std::move(options)),
      events_(std::move(events)),
      strategy_(options_.strategy(groups, solver_)),
      begun_(state_.iteration),
      cursor_(state_.samples),
      shares_layers_(groups.count() == 1 || groups.net().has(Net::Phase::merged)),
      outcomes_(groups.count()),
      started_at_(state_.iteration),
      health_(options_.trial ? nullptr : options_.health) {
  if (!state_.saved_at) state_.saved_at = state_.iteration;
  strategy_->restore(state_.strategy);
  if (groups.on_several_ranks()) reports_.emplace(queue_);
  // Of several ranks: as groups begin, unless they take turns.
  const bool in_sequence = options_.feeds.empty() && (!reports_ || strategy_->in_order());
  const std::uint64_t count = groups.count();
  std::vector<bool> turns;
  for (std::uint64_t turn = begun_; turn < begun_ + count; ++turn)
    turns.push_back(groups.is_here(static_cast<int>(turn % count)));
  std::map<DataFeed*, TrainingFeed*> feed_of;
  for (int group = 0; group < groups.count(); ++group) {
    DataFeed* const data =
        options_.feeds.empty() || !groups.is_here(group) ? &train : options_.feeds[group];
    TrainingFeed*& feed = feed_of[data];
    if (feed == nullptr)
      feed = &feeds_.emplace_back(*data, state_.seed, cursor_, last(), in_sequence, turns);
    runs_.push_back(
        std::make_unique<GroupRun>(groups, group, *feed, queue_, *strategy_, !options_.trial));
  }
  report_.iteration = state_.iteration;
  report_.images = state_.samples;
  report_.epoch = epochs_of(state_.samples);
  report_.seconds = reported_seconds_ = options_.seconds_before;
  if (options_.clock == nullptr) return;
  take_arrivals();
  report_.simulated_seconds = options_.clock->now();
}

int Trainer::slots(const ComputeGroups& groups) {
  return slots(static_cast<int>(groups.here().size()), groups.net().options().subdivisions);
}

int Trainer::slots(int groups, int subdivisions) {
  const int held = std::min(subdivisions, GroupRun::kHeld);
  return groups * kUnderWay * held + kPrefetched;
}

Status Trainer::run() {
  training_time_.start();
  const auto finished = [&] { return state_.samples >= last(); };
  if (state_.owes_evaluation && !finished()) {
    OMNI_CHECK(evaluate_in_passing());
    training_time_.start();
  }
  while (!finished() && !must_stop()) {
    if (Status trained = train_until(next_stop()); !trained) {
      if (trained.error().kind != ErrorKind::diverged) ranks::leave_for(trained.error());
      (void)wait_for_tasks();  // they use this object
      release_feeds();
      note_strategy();
      return trained;
    }
    const auto due = [this](std::uint64_t every) {
      return every != 0 && state_.samples % samples_of(every) == 0;
    };
    // What is saved before an evaluation says that it is to come. The last one is the caller's.
    const bool at_end = state_.samples == samples_of(options_.iterations);
    state_.owes_evaluation = test_ != nullptr && (due(options_.evaluate_every) || at_end);
    // A full disk may have room again later; only a last save that fails ends the run.
    if (due(options_.checkpoint_every))
      if (Status saved = save(); !saved && ranks::first())
        log::warn("{}; going on", saved.error().message());
    if (state_.owes_evaluation && !at_end) OMNI_CHECK(evaluate_in_passing());
    training_time_.start();
  }
  training_time_.pause();
  release_feeds();
  note_strategy();
  const bool ends = last() == samples_of(options_.iterations);
  if (finished() && ends && health_ != nullptr) health_->end();
  if (finished() && !is_sick()) {
    if (!ends) return {};
    if (options_.checkpoint_every != 0) OMNI_CHECK(save());
    strategy_->conclude();
    return wait_for_tasks();
  }
  OMNI_CHECK(save());
  return Error{ErrorKind::interrupted, "",
               fmt::format("stopped after iteration {}", state_.iteration), "--resume goes on"};
}

std::uint64_t Trainer::last() const {
  const std::uint64_t end = options_.iterations != 0 ? samples_of(options_.iterations) : UINT64_MAX;
  return options_.until != 0 ? std::min(end, samples_of(options_.until)) : end;
}

std::uint64_t Trainer::next_stop() const {
  std::uint64_t stop = std::min(last(), strategy_->next_rest(state_.samples));
  for (const std::uint64_t every : {options_.checkpoint_every, options_.evaluate_every})
    if (every != 0)
      stop = std::min(stop, (state_.samples / samples_of(every) + 1) * samples_of(every));
  return stop;
}

Status Trainer::save() {
  if (!events_.save_checkpoint || state_.saved_at == state_.iteration) return {};
  note_strategy();
  OMNI_CHECK(events_.save_checkpoint(state_));
  state_.saved_at = state_.iteration;
  return {};
}

void Trainer::note_strategy() {
  state_.strategy = strategy_->state();
  state_.seconds = seconds();
  if (health_ != nullptr) state_.health = health_->numbers();
  if (options_.clock == nullptr) return;
  state_.arrivals = arrivals_;
  state_.arrivals->clock = options_.clock->state();
  state_.arrivals->machine = options_.clock->machine();
}

Status Trainer::train_until(std::uint64_t limit) {
  const std::uint64_t meets_at = strategy_->next_rest(state_.samples);
  OMNI_CHECK(strategy_->in_order() ? run_in_order(limit) : run_freely(limit));
  if (inspects_ && !divergence_) OMNI_CHECK(inspect());
  OMNI_CHECK(rest());
  if (groups_.sums != nullptr) OMNI_CHECK(groups_.sums->settle());
  if (divergence_) return *divergence_;
  if (state_.samples != meets_at) return {};
  strategy_->meet_at_rest();
  if (options_.clock != nullptr) {
    options_.clock->give_up();
    options_.clock->meet();
    arrivals_.samples.assign(arrivals_.samples.size(), 0);
    arrivals_.finished = -1;
    begin_on_clock();
  }
  return wait_for_tasks();
}

void Trainer::agree(GroupOutcome& outcome) {
  Tally& tally = outcome.tally;
  if (ranks::several() && !reports_) {
    std::array values{tally.loss, tally.top1, tally.top5, tally.images,
                      stop_requested() ? 1.0 : 0.0};
    ranks::sum(values);
    tally = {values[0], values[1], values[2], values[3]};
    outcome.stops = values[4] > 0;
  }
  some_rank_stops_ = some_rank_stops_ || outcome.stops;
  ranks::note_iteration(state_.iteration + 1);
}

bool Trainer::is_sick() const { return health_ != nullptr && health_->failure(); }

bool Trainer::must_stop() const {
  const bool asked = ranks::several() ? some_rank_stops_ : stop_requested();
  return asked || is_sick() || (events_.is_enough && events_.is_enough());
}

bool Trainer::begin(int group, std::uint64_t limit, bool announce) {
  GroupRun& run = run_of(group);
  const bool simulated = options_.clock != nullptr;
  const std::uint64_t wanted = simulated ? arrivals_.samples[group] : strategy_->next_batch(group),
                      pass = groups_.images_per_pass(group);
  const std::uint64_t count = std::min(wanted, limit - cursor_) / pass * pass;
  if (count == 0) return false;
  run.begin({.group = group, .number = begun_++, .first = cursor_, .count = count}, announce,
            simulated ? options_.clock->now() : 0);
  if (reports_) reports_->expect(groups_.ranks_of(group));
  cursor_ += count;
  return true;
}

// A group's mini-batch enters the merged phase when it gets there. Its next one is submitted
// behind it at once, so that its workers need not wait for this thread. Of several ranks, only
// reports say who begins.
Status Trainer::run_freely(std::uint64_t limit) {
  const auto begin_next = [&](int group) -> Status {
    GroupRun& run = run_of(group);
    while (run.may_begin() && may_begin(limit) && begin(group, limit, !run.is_whole()))
      if (run.is_whole()) OMNI_CHECK(run.complete(update_rule(run)));
    return {};
  };
  for (int group = 0; group < groups_.count(); ++group) OMNI_CHECK(begin_next(group));
  while (state_.iteration < begun_) {
    OMNI_TRY(const GroupEvent event, next_event());
    if (event.kind == GroupEvent::Kind::arrived) {
      GroupRun& run = run_of(event.group);
      OMNI_CHECK(run.advance(update_rule(run)));
      if (reports_) continue;
    } else {
      OMNI_CHECK(finish_one(event));
    }
    OMNI_CHECK(begin_next(event.group));
  }
  return may_begin(limit) ? nobody_can_begin(limit) : Status();
}

Result<GroupEvent> Trainer::next_event() {
  constexpr std::chrono::milliseconds kPatience{200};
  const recording::WaitScope waiting(false);
  while (true) {
    auto event = queue_.wait(kPatience);
    if (!event) {
      OMNI_CHECK(task_status());
      continue;
    }
    GroupRun& run = run_of(event->group);
    const bool own = event->kind == GroupEvent::Kind::updated;
    if (own) {
      OMNI_TRY(event->outcome, run.read_outcome());
    }
    if (!reports_ || event->kind == GroupEvent::Kind::arrived || (!own && !ranks::first()))
      return *event;
    if (ranks::first()) {
      if (!reports_->complete(*event, groups_.ranks_of(event->group).count)) continue;
      if (!groups_.is_here(event->group)) {
        OMNI_TRY(event->outcome, run.read_outcome(event->outcome));
      }
    }
    reports_->send(*event);
    if (ranks::first()) return *event;
  }
}

UpdateRule Trainer::update_rule(const GroupRun& run) const {
  const MiniBatch& batch = run.next_to_complete();
  const std::uint64_t iteration = batch.first / net_options_.batch + 1;
  double share = state_.guard ? state_.guard->share : 1;
  if (iteration > options_.cool_from && iteration <= options_.cool_until)
    share *= static_cast<double>(options_.cool_until - iteration + 1) /
             static_cast<double>(options_.cool_until - options_.cool_from + 1);
  return strategy_->rule(
      batch, static_cast<float>(share) * learning_rate(solver_, state_.seed, iteration));
}

Status Trainer::finish_one(const GroupEvent& event) {
  FinishedUpdate finished = run_of(event.group).collect(event.outcome);
  agree(finished.outcome);
  const double loss = finished.outcome.tally.mean_loss(),
               accuracy = finished.outcome.tally.accuracy();
  const bool first = state_.iteration == 0;
  ++state_.iteration;
  state_.samples += finished.batch.count;
  if (!std::isfinite(loss) && !divergence_) divergence_ = diverged(state_.iteration);
  if (divergence_) return {};
  state_.average_loss = first ? loss : 0.9 * state_.average_loss + 0.1 * loss;
  state_.average_accuracy = 0.9 * state_.average_accuracy.value_or(accuracy) + 0.1 * accuracy;
  ++unreported_updates_;
  unreported_samples_ += finished.batch.count;
  unreported_staleness_ += finished.outcome.staleness;
  report(finished);
  if (health_ != nullptr && health_->note(report_)) inspects_ = true;
  if (events_.is_lost && events_.is_lost(loss))
    divergence_ =
        Error{ErrorKind::diverged, "",
              fmt::format("the loss rises, to {:.4g} in iteration {}", loss, state_.iteration),
              "lower the learning rate"};
  return {};
}

void Trainer::report(const FinishedUpdate& finished) {
  const std::uint64_t done = state_.iteration;
  report_ = {
      .iteration = done,
      // Where groups take mini-batches of other sizes, nobody knows how many it will be.
      .iterations = options_.feeds.empty() ? options_.iterations : 0,
      .began = finished.batch.number,
      .epoch = epochs_of(state_.samples),
      .images = state_.samples,
      .loss = finished.outcome.tally.mean_loss(),
      .average_loss = state_.average_loss,
      .accuracy = finished.outcome.tally.accuracy(),
      .average_accuracy = *state_.average_accuracy,
      .learning_rate = finished.rule.learning_rate,
      .momentum = finished.rule.momentum,
      .adam = solver_.adam,
      .group = finished.batch.group,
      .staleness = finished.outcome.staleness,
      .fc_staleness = shares_layers_ ? std::optional(finished.outcome.fc_staleness) : std::nullopt,
      .mean_staleness =
          static_cast<double>(unreported_staleness_) / static_cast<double>(unreported_updates_),
      .images_per_second =
          static_cast<double>(unreported_samples_) / std::fmax(seconds() - reported_seconds_, 1e-9),
      .seconds = seconds(),
      .seconds_per_iteration = training_time_.seconds() / static_cast<double>(done - started_at_),
      .simulated_seconds =
          options_.clock != nullptr ? std::optional(finished.simulated) : std::nullopt,
      .group_samples = finished.batch.count,
      .figures = strategy_->figures(finished.batch.group)};
  const bool reported = !events_.is_reported || events_.is_reported(done) ||
                        state_.samples == samples_of(options_.iterations);
  if (events_.on_iteration) events_.on_iteration(report_);
  if (!reported) return;
  reported_seconds_ = report_.seconds;
  unreported_updates_ = 0;
  unreported_samples_ = 0;
  unreported_staleness_ = 0;
  if (events_.on_step) events_.on_step(report_);
}

Status Trainer::rest() {
  Status status = wait_for_tasks();
  training_time_.pause();
  return status;
}

// With the mini-batches that come next, which stay where they wait.
Status Trainer::inspect() {
  inspects_ = false;
  OMNI_CHECK(wait_for_tasks());
  return feeds_.front().lend(
      [&](DataFeed& feed) { return health_->inspect(groups_.net(), feed, state_.seed, cursor_); });
}

Status Trainer::evaluate_in_passing() {
  Status evaluated = evaluate_now();
  return !evaluated && evaluated.error().kind == ErrorKind::interrupted ? Status() : evaluated;
}

Status Trainer::evaluate_now() {
  OMNI_CHECK(rest());
  state_.owes_evaluation = test_ != nullptr;
  if (test_ == nullptr) return {};
  Net& net = groups_.evaluating_net();
  net.read_masters(true);
  Result<Tally> tally = evaluate(net, *test_, state_.seed);
  net.read_masters(false);
  if (!tally) {
    some_rank_stops_ = true;
    if (tally.error().kind == ErrorKind::interrupted) OMNI_CHECK(save());
    return std::move(tally.error());
  }
  state_.owes_evaluation = false;
  if (events_.on_evaluation) events_.on_evaluation({report_, *tally});
  return {};
}

Error Trainer::diverged(std::uint64_t iteration) {
  std::string culprit = "the parameters are still finite";
  // Where groups have models of their own, theirs become infinite first.
  for (const int group : groups_.here())
    for (const Param* param : groups_.net(group).params()) {
      const HostAccess access(*param->value, HostAccess::Mode::read);
      if (std::ranges::all_of(access.f32(), [](float value) { return std::isfinite(value); }))
        continue;
      culprit = "first in " + param->name;
      break;
    }
  return {ErrorKind::diverged, "",
          fmt::format("the loss of iteration {} is not a finite number; {}", iteration, culprit),
          "lower the learning rate, or add burn_in"};
}

}  // namespace omni
