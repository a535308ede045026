#include "scheduling/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/log.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/rate_policy.hpp"

namespace omni {

namespace {

SolverOptions tuned(SolverOptions solver, const std::optional<Tuning>& tuning) {
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
      solver_(tuned(net_options_.solver, state.tuning)),
      test_(test),
      state_(state),
      options_(options),
      events_(std::move(events)),
      // Mini-batches of one iteration follow each other in the data, so their order is fixed.
      in_turn_(groups.count() == 1 || options.asynchrony == Asynchrony::reproducible ||
               !groups.has_replicated_phase() || net_options_.subdivisions > 1),
      momentum_(momentum_of_groups(options.compensation, static_cast<double>(solver_.momentum),
                                   groups.count(), groups.watched().has_value())),
      feed_(train, state.seed, batches(state.iteration),
            last() != UINT64_MAX ? batches(last()) : UINT64_MAX),
      begun_(state.iteration),
      started_at_(state.iteration),
      saved_at_(state.iteration) {
  for (int group = 0; group < groups.count(); ++group)
    runs_.push_back(std::make_unique<GroupRun>(groups, group, feed_, queue_, !options.trial));
  report_.iteration = state.iteration;
  report_.images = images_after(state.iteration);
  report_.epoch = epochs_after(state.iteration);
  report_.seconds = reported_seconds_ = options.seconds_before;
}

int Trainer::slots(const ComputeGroups& groups) {
  return slots(groups.count(), groups.net().options().subdivisions);
}

int Trainer::slots(int groups, int subdivisions) {
  const int held = std::min(subdivisions, GroupRun::kHeld);
  return groups * GroupRun::kUnderWay * held + TrainingFeed::kPrefetched;
}

Status Trainer::run() {
  training_time_.start();
  const auto finished = [&] { return state_.iteration >= last(); };
  while (!finished() && !stop_requested()) {
    if (Status trained = train_until(next_stop()); !trained) {
      (void)wait_for_tasks();  // they use this object
      feed_.release_from(batches(begun_));
      return trained;
    }
    const auto due = [this](std::uint64_t every) {
      return every != 0 && state_.iteration % every == 0;
    };
    // A full disk may have room again later; only a last save that fails ends the run.
    if (due(options_.checkpoint_every))
      if (Status saved = save(); !saved) log::warn("{}; going on", saved.error().message());
    if (due(options_.evaluate_every) && state_.iteration != options_.iterations) {
      Status evaluated = evaluate_now();
      if (!evaluated && evaluated.error().kind != ErrorKind::interrupted) return evaluated;
    }
    training_time_.start();
  }
  training_time_.pause();
  feed_.release_from(batches(begun_));
  if (finished())
    return options_.checkpoint_every != 0 && last() == options_.iterations ? save() : Status();
  OMNI_CHECK(save());
  return Error{ErrorKind::interrupted, "",
               fmt::format("stopped after iteration {}", state_.iteration), "--resume goes on"};
}

std::uint64_t Trainer::last() const {
  const std::uint64_t end = options_.iterations != 0 ? options_.iterations : UINT64_MAX;
  return options_.until != 0 ? std::min(end, options_.until) : end;
}

std::uint64_t Trainer::next_stop() const {
  std::uint64_t stop = last();
  for (const std::uint64_t every : {options_.checkpoint_every, options_.evaluate_every})
    if (every != 0) stop = std::min(stop, (state_.iteration / every + 1) * every);
  return stop;
}

Status Trainer::save() {
  if (!events_.save_checkpoint || saved_at_ == state_.iteration) return {};
  OMNI_CHECK(events_.save_checkpoint(state_));
  saved_at_ = state_.iteration;
  return {};
}

Status Trainer::train_until(std::uint64_t limit) {
  OMNI_CHECK(in_turn_ ? take_turns(limit) : run_freely(limit));
  OMNI_CHECK(rest());
  if (divergence_) return *divergence_;
  return {};
}

bool Trainer::may_begin(std::uint64_t limit) const {
  return begun_ < limit && !divergence_ && !stop_requested();
}

Status Trainer::take_turns(std::uint64_t limit) {
  const auto most = static_cast<std::uint64_t>(groups_.count()) + 1;
  while (true) {
    const std::uint64_t under_way = begun_ - state_.iteration;
    GroupRun& run = *runs_[begun_ % runs_.size()];
    if (may_begin(limit) && under_way < most && run.may_begin()) {
      run.begin(begun_++, false);
      OMNI_CHECK(run.complete(update_rule(run)));
    } else if (under_way > 0) {
      OMNI_TRY(const GroupEvent event, next_event());
      OMNI_CHECK(finish_one(event.group));
    } else {
      return {};
    }
  }
}

// A group's mini-batch enters the merged phase when it gets there. Its next one is submitted
// behind it at once, so that its workers need not wait for this thread.
Status Trainer::run_freely(std::uint64_t limit) {
  const auto begin = [&](GroupRun& run) {
    if (run.may_begin() && may_begin(limit)) run.begin(begun_++, true);
  };
  for (const auto& run : runs_) begin(*run);
  while (state_.iteration < begun_) {
    OMNI_TRY(const GroupEvent event, next_event());
    GroupRun& run = *runs_[static_cast<std::size_t>(event.group)];
    if (event.kind == GroupEvent::Kind::arrived) {
      OMNI_CHECK(run.complete(update_rule(run)));
    } else {
      OMNI_CHECK(finish_one(event.group));
    }
    begin(run);
  }
  return {};
}

Result<GroupEvent> Trainer::next_event() {
  constexpr std::chrono::milliseconds kPatience{200};
  const recording::WaitScope waiting(false);
  while (true) {
    if (const auto event = queue_.wait(kPatience)) return *event;
    OMNI_CHECK(task_status());
  }
}

UpdateRule Trainer::update_rule(const GroupRun& run) const {
  return {.learning_rate = learning_rate(solver_, state_.seed, run.next_to_complete() + 1),
          .momentum = momentum_,
          .order = in_turn_ ? ExchangeOrder::submission : ExchangeOrder::arrival};
}

Status Trainer::finish_one(int group) {
  OMNI_TRY(const FinishedIteration finished, runs_[static_cast<std::size_t>(group)]->collect());
  const double loss = finished.tally.mean_loss();
  const std::uint64_t done = state_.iteration + 1;
  if (!std::isfinite(loss) && !divergence_) divergence_ = diverged(done);
  if (divergence_) {
    state_.iteration = done;
    return {};
  }
  state_.average_loss = state_.iteration == 0 ? loss : 0.9 * state_.average_loss + 0.1 * loss;
  state_.iteration = done;
  ++unreported_updates_;
  unreported_staleness_ += finished.staleness;

  report_ = {
      .iteration = done,
      .iterations = options_.iterations,
      .began = finished.number,
      .epoch = epochs_after(done),
      .images = images_after(done),
      .loss = loss,
      .average_loss = state_.average_loss,
      .accuracy = finished.tally.accuracy(),
      .learning_rate = finished.rule.learning_rate,
      .momentum = finished.rule.momentum,
      .group = group,
      .staleness = finished.staleness,
      .fc_staleness = finished.fc_staleness,
      .mean_staleness =
          static_cast<double>(unreported_staleness_) / static_cast<double>(unreported_updates_),
      .images_per_second = static_cast<double>(images_after(unreported_updates_)) /
                           std::fmax(seconds() - reported_seconds_, 1e-9),
      .seconds = seconds(),
      .seconds_per_iteration = training_time_.seconds() / static_cast<double>(done - started_at_)};
  const bool displayed = done % options_.display == 0 || done == options_.iterations;
  if (events_.on_iteration) events_.on_iteration(report_);
  if (!displayed) return {};
  reported_seconds_ = report_.seconds;
  unreported_updates_ = 0;
  unreported_staleness_ = 0;
  if (events_.on_step) events_.on_step(report_);
  return {};
}

std::uint64_t Trainer::batches(std::uint64_t iterations) const {
  return iterations * static_cast<std::uint64_t>(net_options_.subdivisions);
}

std::uint64_t Trainer::images_after(std::uint64_t iterations) const {
  return iterations * static_cast<std::uint64_t>(net_options_.batch);
}

double Trainer::epochs_after(std::uint64_t iterations) const {
  return static_cast<double>(images_after(iterations)) / static_cast<double>(feed_.images());
}

Status Trainer::rest() {
  Status status = wait_for_tasks();
  training_time_.pause();
  return status;
}

Status Trainer::evaluate_now() {
  OMNI_CHECK(rest());
  if (test_ == nullptr) return {};
  Net& net = groups_.net();
  net.read_masters(true);
  Result<Tally> tally = evaluate(net, *test_, state_.seed);
  net.read_masters(false);
  if (!tally) {
    if (tally.error().kind == ErrorKind::interrupted) OMNI_CHECK(save());
    return std::move(tally.error());
  }
  if (events_.on_evaluation) events_.on_evaluation({report_, *tally});
  return {};
}

Error Trainer::diverged(std::uint64_t iteration) {
  std::string culprit = "the parameters are still finite";
  for (const Param* param : groups_.net().params()) {
    const HostAccess access(*param->master, HostAccess::Mode::read);
    for (const float value : access.f32())
      if (!std::isfinite(value)) {
        culprit = "first in " + param->name;
        break;
      }
    if (culprit.starts_with("first")) break;
  }
  return {ErrorKind::diverged, "",
          fmt::format("the loss of iteration {} is not a finite number; {}", iteration, culprit),
          "lower the learning rate, or add burn_in"};
}

}  // namespace omni
