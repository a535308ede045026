#include "scheduling/training/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "runtime/communicator/ranks.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/training/rate_policy.hpp"

namespace omni {

Steering combined(std::span<Pilot* const> pilots) {
  Steering all;
  for (const Pilot* pilot : pilots) {
    const Steering own = pilot->steering();
    all.share *= own.share;
    if (own.momentum) all.momentum = own.momentum;
    if (own.learning_rate) all.learning_rate = own.learning_rate;
    if (own.cool_from == UINT64_MAX) continue;
    all.cool_from = own.cool_from;
    all.cool_until = own.cool_until;
  }
  return all;
}

Trainer::Trainer(ComputeGroups& groups, DataFeed& train, DataFeed* test, TrainingState state,
                 TrainerOptions options, TrainerEvents events, std::vector<Pilot*> pilots)
    : groups_(groups),
      train_(train),
      test_(test),
      state_(std::move(state)),
      options_(std::move(options)),
      events_(std::move(events)),
      pilots_(std::move(pilots)),
      solver_(options_.solver),
      started_at_(state_.iteration),
      seconds_before_(state_.seconds),
      reported_seconds_(state_.seconds) {
  if (options_.schedule != 0) solver_ = for_length(std::move(solver_), options_.schedule);
  if (!state_.saved_at) state_.saved_at = state_.iteration;
  report_.iteration = state_.iteration;
  report_.images = state_.samples;
  report_.epoch = epochs_of(state_.samples);
  report_.has_classes = groups_.net().classes() > 0;
  report_.seconds = seconds_before_;
  report_.simulated_seconds = simulated_seconds();
}

int Trainer::slots(const ComputeGroups& groups) {
  return slots(static_cast<int>(groups.here().size()), groups.net().options().subdivisions);
}

int Trainer::slots(int groups, int subdivisions) {
  const int held = std::min(subdivisions, GroupRun::kHeld);
  return groups * kUnderWay * held + kPrefetched;
}

Status Trainer::run() {
  if (state_.owes_evaluation && !finished()) OMNI_CHECK(evaluate_in_passing());
  if (!must_stop()) {
    OMNI_CHECK(begin_pilots());
    OMNI_CHECK(train());
  }
  const bool complete = finished() || ends_;
  const Status ended =
      complete ? ask_pilots([this](Pilot& pilot) { return pilot.end(*this); }) : Status();
  note();
  if (!complete || !ended || options_.checkpoint_every != 0) OMNI_CHECK(save());
  if (!complete) return stopped_after(state_.iteration);
  OMNI_CHECK(Status(ended));
  start_loop();
  const Result<bool> changed = loop_->conclude();
  loop_.reset();
  if (!changed) return changed.error();
  merged_at_end_ = *changed;
  evaluated_ = evaluated_ && !*changed;
  return {};
}

// If the checkpoint says that an evaluation is due, it is made up before training. Pilots see it
// after their state is restored.
Status Trainer::begin_pilots() {
  const auto saved = state_.pilots;
  const std::optional<EvaluationReport> made_up = evaluation_;
  const auto steered = [this](const auto& of) {
    return std::ranges::any_of(pilots_,
                               [&](const Pilot* each) { return each->name() == of.first; });
  };
  std::erase_if(state_.pilots, std::not_fn(steered));
  std::erase_if(state_.kept, std::not_fn(steered));
  // The last checkpoint says that the evaluation is due, so a new checkpoint must be saved.
  if (made_up) state_.saved_at.reset();
  Status begun = ask_pilots([&](Pilot& pilot) -> Status {
    ++begun_;
    const auto own = saved.find(pilot.name());
    Status done = pilot.begin(*this, own == saved.end() ? std::span<const double>() : own->second);
    return done && made_up ? pilot.tested(*this, *made_up) : std::move(done);
  });
  state_.kept.clear();
  return begun;
}

Status Trainer::train() {
  // At an iteration with a rest, a checkpoint is saved before the rest. So after a resume the
  // pilots are asked first.
  if (rest_is_due()) OMNI_CHECK(ask_pilots([this](Pilot& pilot) { return pilot.rested(*this); }));
  while (!finished() && !must_stop()) {
    start_loop();
    evaluated_ = false;
    training_time_.start();
    Status trained = loop_->train_until(next_stop());
    training_time_.pause();
    if (!trained) {
      const bool diverged = trained.error().kind == ErrorKind::diverged;
      if (!diverged) ranks::leave_for(trained.error());
      end_loop();
      if (!diverged) return trained;
      OMNI_CHECK(go_back(trained.error()));
      continue;
    }
    const auto due = [this](std::uint64_t every) {
      return every != 0 && state_.samples % samples_of(every) == 0;
    };
    // A checkpoint that is saved before an evaluation records that the evaluation is due. At the
    // end of the training the caller evaluates, unless a pilot ended the training after this
    // evaluation.
    const bool at_end = state_.samples == samples_of(options_.iterations);
    state_.owes_evaluation = test_ != nullptr && (due(options_.evaluate_every) || at_end);
    if (due(options_.snapshot_every) && !at_end) save_snapshot_in_passing();
    if (due(options_.checkpoint_every) && !at_end) save_in_passing();
    if (state_.owes_evaluation && !at_end) OMNI_CHECK(evaluate_in_passing());
    if (rest_is_due()) OMNI_CHECK(ask_pilots([this](Pilot& pilot) { return pilot.rested(*this); }));
  }
  return {};
}

void Trainer::start_loop() {
  if (loop_) return;
  if (options_.make_clock) clock_ = options_.make_clock(groups_.count());
  loop_.emplace(groups_, train_, state_,
                LoopOptions{.solver = solver_,
                            .steering = combined(pilots_),
                            .strategy = options_.strategy,
                            .feeds = options_.feeds,
                            .clock = clock_.get(),
                            .last_sample = std::min(last(), pilots_rest()),
                            .traced = options_.traced,
                            .judge = [this](const FinishedUpdate& of) { return judge(of); },
                            .must_stop = [this] { return must_stop(); }});
}

void Trainer::end_loop() {
  if (!loop_) return;
  loop_->note();
  loop_.reset();
  clock_.reset();
}

std::uint64_t Trainer::last() const {
  return options_.iterations != 0 ? samples_of(options_.iterations) : UINT64_MAX;
}

std::uint64_t Trainer::next_stop() const {
  std::uint64_t stop = last();
  for (const std::uint64_t every :
       {options_.checkpoint_every, options_.snapshot_every, options_.evaluate_every})
    if (every != 0)
      stop = std::min(stop, (state_.samples / samples_of(every) + 1) * samples_of(every));
  return std::min(stop, pilots_rest());
}

std::uint64_t Trainer::pilots_rest() const {
  std::uint64_t first = UINT64_MAX;
  for (const Pilot* pilot : pilots_) first = std::min(first, pilot->next_rest());
  return first == UINT64_MAX ? first : samples_of(first);
}

bool Trainer::rest_is_due() const {
  return !finished() && !must_stop() && (pilot_asked_ || state_.samples >= pilots_rest());
}

void Trainer::warn(const std::string& text) const {
  if (!ranks::first()) return;  // all ranks decide alike
  if (events_.warn)
    events_.warn(text);
  else
    log::warn("{}", text);
}

bool Trainer::must_stop() const {
  return ends_ || some_rank_stops_ || (!ranks::several() && stop_requested());
}

Status Trainer::ask_pilots(const std::function<Status(Pilot&)>& what) {
  if (pilots_.empty()) return {};
  end_loop();
  pilot_asked_ = false;
  const std::uint64_t before = state_.iteration;
  for (Pilot* pilot : pilots_)
    if (Status done = what(*pilot); !done) {
      if (done.error().kind == ErrorKind::interrupted) OMNI_CHECK(save());
      return done;
    }
  if (state_.iteration == before) return {};
  evaluated_ = false;
  return catch_up(before);
}

// Saves, and evaluates, at most once each, if that was due between iteration `before` and the
// current one. It is called after a pilot trained some iterations, or the training went back.
Status Trainer::catch_up(std::uint64_t before) {
  const auto missed = [&](std::uint64_t every) {
    return every != 0 && before / every != state_.iteration / every;
  };
  const bool evaluates = missed(options_.evaluate_every) && !finished();
  state_.owes_evaluation = evaluates && test_ != nullptr;
  if (missed(options_.snapshot_every) && !finished()) save_snapshot_in_passing();
  if (missed(options_.checkpoint_every)) save_in_passing();
  return evaluates ? evaluate_in_passing() : Status();
}

Status Trainer::go_back(Error error) {
  const std::uint64_t before = state_.iteration - 1;  // what was due at this iteration was not done
  for (Pilot* pilot : pilots_) {
    Result<bool> restored = pilot->go_back(*this, error);
    if (!restored) {
      if (restored.error().kind == ErrorKind::interrupted) OMNI_CHECK(save());
      return std::move(restored.error());
    }
    if (*restored) return catch_up(before);
  }
  return error;
}

Advice Trainer::judge(const FinishedUpdate& finished) {
  ++unreported_updates_;
  unreported_samples_ += finished.batch.count;
  unreported_staleness_ += finished.outcome.staleness;
  some_rank_stops_ = some_rank_stops_ || finished.outcome.stops;
  report(finished);
  Advice advice = Advice::go_on;
  for (Pilot* pilot : pilots_) advice = std::max(advice, pilot->judge(report_));
  ends_ = ends_ || advice == Advice::end;
  pilot_asked_ = pilot_asked_ || advice == Advice::rest;
  return advice;
}

void Trainer::report(const FinishedUpdate& finished) {
  const std::uint64_t done = state_.iteration;
  report_ = {
      .iteration = done,
      // If the size of mini-batches varies, the number of iterations is not known.
      .iterations = options_.feeds.empty() ? options_.iterations : 0,
      .began = finished.batch.number,
      .epoch = epochs_of(state_.samples),
      .images = state_.samples,
      .loss = finished.outcome.tally.mean_loss(),
      .average_loss = state_.average_loss,
      .accuracy = finished.outcome.tally.accuracy(),
      .average_accuracy = *state_.average_accuracy,
      .auxiliary_losses = finished.outcome.tally.auxiliary_losses(),
      .has_classes = groups_.net().classes() > 0,
      .learning_rate = finished.rule.learning_rate,
      .momentum = finished.rule.momentum,
      .adam = !has_momentum(solver_.rule, solver_.adam),
      .group = finished.batch.group,
      .staleness = finished.outcome.staleness,
      .fc_staleness =
          loop_->shares_layers() ? std::optional(finished.outcome.fc_staleness) : std::nullopt,
      .mean_staleness =
          static_cast<double>(unreported_staleness_) / static_cast<double>(unreported_updates_),
      .images_per_second =
          static_cast<double>(unreported_samples_) / std::fmax(seconds() - reported_seconds_, 1e-9),
      .seconds = seconds(),
      .seconds_per_iteration = training_time_.seconds() / static_cast<double>(done - started_at_),
      .simulated_seconds =
          clock_ ? std::optional(state_.simulated_before + finished.simulated) : std::nullopt,
      .group_samples = finished.batch.count,
      .figures = loop_->strategy().figures(finished.batch.group)};
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

std::optional<double> Trainer::simulated_seconds() const {
  if (!options_.make_clock) return std::nullopt;
  const double now = clock_ ? clock_->now() : state_.arrivals ? state_.arrivals->clock.now : 0;
  return state_.simulated_before + now;
}

void Trainer::note() {
  if (loop_) loop_->note();
  state_.seconds = seconds();
  for (const Pilot* pilot : std::span(pilots_).first(begun_)) {
    const std::string name(pilot->name());
    state_.pilots.erase(name);
    if (std::vector<double> numbers = pilot->numbers(); !numbers.empty())
      state_.pilots[name] = std::move(numbers);
  }
}

Status Trainer::save() {
  note();
  if (!events_.save_checkpoint || state_.saved_at == state_.iteration) return {};
  auto loaded = state_.kept;  // of the pilots that have not begun
  for (const Pilot* pilot : std::span(pilots_).first(begun_))
    state_.kept[std::string(pilot->name())] = pilot->kept();
  Status saved = events_.save_checkpoint(state_);
  state_.kept = std::move(loaded);
  OMNI_CHECK(std::move(saved));
  state_.saved_at = state_.iteration;
  return {};
}

Status Trainer::keep_as_best() {
  if (!events_.keep_best || merged_at_end_) return {};
  OMNI_CHECK(save());
  return events_.keep_best();
}

Status Trainer::save_changed() {
  changed_result();
  return save();
}

// If a save fails, the run continues, as a full disk may have room again later. Only a failure of
// the last save ends the run.
void Trainer::save_in_passing() {
  if (Status saved = save(); !saved && ranks::first())
    log::warn("{}; going on", saved.error().message());
}

void Trainer::save_snapshot_in_passing() {
  if (!events_.save_snapshot) return;
  if (Status saved = events_.save_snapshot(state_); !saved && ranks::first())
    log::warn("{}; going on", saved.error().message());
}

Status Trainer::evaluate_in_passing() {
  Status evaluated = evaluate_now();
  return !evaluated && evaluated.error().kind == ErrorKind::interrupted ? Status() : evaluated;
}

Result<Tally> Trainer::evaluate(DataFeed& test, const UseOutputs& use) {
  Net& net = groups_.evaluating_net();
  net.read_masters(true);
  Result<Tally> tally = omni::evaluate(net, test, state_.seed, use);
  net.read_masters(false);
  return tally;
}

Status Trainer::evaluate_now() {
  OMNI_CHECK(wait_for_tasks());
  if (evaluated_) return {};
  state_.owes_evaluation = test_ != nullptr;
  if (test_ == nullptr) return {};
  Result<Tally> tally = evaluate(*test_);
  if (!tally) {
    some_rank_stops_ = true;
    if (tally.error().kind == ErrorKind::interrupted) OMNI_CHECK(save());
    return std::move(tally.error());
  }
  state_.owes_evaluation = false;
  evaluated_ = true;
  evaluation_ = EvaluationReport{report_, *tally};
  if (events_.on_evaluation) events_.on_evaluation(*evaluation_);
  for (Pilot* pilot : std::span(pilots_).first(begun_))
    OMNI_CHECK(pilot->tested(*this, *evaluation_));
  return {};
}

}  // namespace omni
