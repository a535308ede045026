// TrainCommand takes these steps while the training runs, and at its end.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/group_options.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "apps/omni-run/training/training.hpp"
#include "layers/formats/parameters.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/own_command.hpp"
#include "runtime/signals.hpp"
#include "runtime/slurm_job.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/checkpoint/training_snapshot.hpp"

namespace omni {
Status train_command(const TrainArguments& arguments) {
  TrainCommand command(arguments);
  Status status = command.run();
  // After these two errors all ranks end in order, as all have got the same error.
  if (!status && status.error().kind != ErrorKind::interrupted &&
      status.error().kind != ErrorKind::diverged)
    ranks::leave_for(status.error());
  return status;
}

Status TrainCommand::open_metrics() {
  std::filesystem::path file = arguments_.metrics;
  if (file.empty() && recorder_) file = recorder_->folder() / "metrics.jsonl";
  if (!file.empty() && ranks::first()) {
    const auto resumed =
        arguments_.resume != "none" ? std::optional(start_.iteration) : std::nullopt;
    OMNI_TRY(metrics_, MetricsLog::open(file, resumed));
    if (!slurm::job().empty() && !is_finished()) OMNI_CHECK(metrics_->job(start_.iteration));
  }
  // A process that was killed may have done the evaluation after it saved the checkpoint. Pilots
  // that need the evaluation have not seen it there.
  const bool is_done = ranks::any(metrics_ && metrics_->has_evaluation(start_.iteration));
  const bool is_needed = std::ranges::any_of(training_->pilots(), [](const auto& pilot) {
    const PilotType* type = find_pilot(pilot->name());
    return type && type->needs_tests;
  });
  if (is_done && !is_needed) start_.owes_evaluation = false;
  return {};
}

TrainerOptions TrainCommand::lengths() {
  const auto per_epoch = static_cast<std::uint64_t>(
      std::ceil(static_cast<double>(data_->train->size()) / net().options().batch));
  return {.iterations = iterations_,
          .schedule = iterations_,
          .evaluate_every = arguments_.test_every.value_or(per_epoch),
          .checkpoint_every = arguments_.checkpoint_every,
          .snapshot_every = spec_.snapshots.every,
          .make_clock = make_clock_,
          .use_groups = [this, all = groups().count()](int count) {
            groups().use(count, workers_of(*session_));
            if (arguments_.groups.automatic || strategy_.grows || count != all) return;
            progress_.finish_line();  // assign_workers() cannot fail here: it succeeded before
            (void)assign_workers(groups(), arguments_.groups, strategy_.type->models, *session_);
          }};
}

TrainerEvents TrainCommand::events() {
  return {
      .on_iteration =
          [this](const StepReport& report) {
            time_limit_.note_iteration();
            name_damaged(report.iteration);
            if (!caffe_log_) progress_.iteration(report);
          },
      .is_reported =
          [this](std::uint64_t iteration) {
            return caffe_log_ ? caffe_log_->is_reported(iteration)
                              : iteration % arguments_.display == 0;
          },
      .on_step =
          [this](const StepReport& report) {
            caffe_log_ ? caffe_log_->step(report) : progress_.step(report);
            StepReport with = report;
            if (const SharedStream* of = stream())
              with.figures.push_back({"stream_fill", of->fill()});
            record(&MetricsLog::step, with);
          },
      .on_evaluation =
          [this](const EvaluationReport& report) {
            time_limit_.pause();
            caffe_log_ ? caffe_log_->evaluation(report, net().classes())
                       : progress_.evaluation(report, net().classes());
            last_ = report;
            record(&MetricsLog::evaluation, report);
            share_damaged(report.at.iteration);
          },
      .save_checkpoint =
          [this](const TrainingState& state) {
            Stopwatch watch;
            Status saved = save(state);
            time_limit_.note_save(watch.seconds());
            saved_ = saved_ || saved;
            return saved;
          },
      .save_snapshot = [this](const TrainingState& state) { return save_snapshot(state); },
      .keep_best =
          [this] { return on_first_rank([this] { return folder_->store().mark_best(); }); },
      .say =
          [this](const std::string& text) {
            progress_.finish_line();
            log::info("{}", text);
          },
      .warn =
          [this](const std::string& text) {
            progress_.finish_line();
            log::warn("{}", text);
          },
      .record = [this](const nlohmann::ordered_json& line) { record(&MetricsLog::record, line); }};
}

PilotOptions TrainCommand::pilot_options() {
  const GroupArguments& groups = arguments_.groups;
  return {.automatic = groups.automatic,
          .grows = strategy_.grows,
          .guard = is_guarded(*strategy_.type, groups),
          .strict = arguments_.net.strict,
          .health = !ranks::several(),
          .cold_start = groups.cold_start,
          .groups = this->groups().count(),
          .least_groups = strategy_.type->least_groups,
          .workers = session_ ? workers_of(*session_) : Workers{1, 0},
          .asynchrony = machine_ ? Asynchrony::reproducible : asynchrony_,
          .own = arguments_.pilots,
          .make_another = make_pilot_};
}

std::uint64_t TrainCommand::checkpoint_bytes() {
  std::uint64_t bytes = TrainingSnapshot::bytes(groups());
  for (const auto& pilot : make_pilots(pilot_options())) bytes += pilot->kept_bytes(groups());
  return bytes;
}

Status TrainCommand::ended(Status status) {
  progress_.finish_line();
  if (!status && status.error().kind == ErrorKind::interrupted) {
    status.error().what +=
        saved_ && folder_ ? "; to go on:\n  " + launcher() + folder_->resume_command()
                          : "; nothing was done yet, so nothing was saved; to start again:\n  " +
                                launcher() + for_shell(own_words());
    status.error().hint.clear();
  }
  return status;
}

Status TrainCommand::train() {
  const Recorder::Scope own_trace(recorder_.get());
  if (!is_finished()) {
    name_damaged(start_.iteration);
    for (const GroupPlan::Row& row : group_plan_.rows)
      record(&MetricsLog::planned, row, row.groups == groups().count(), start_.iteration);
  } else {
    log::info("already at iteration {} of {}: nothing to do (raise --epochs or --max-batches)",
              start_.iteration, iterations_);
  }
  if (caffe_log_ && !is_finished()) caffe_log_->begin(spec_.name, spec_.solver.policy);
  if (shared_ == nullptr) stop_in_order();
  TrainingState from = start_;
  start_.kept.clear();  // only the pilots hold these states from now on
  trained_ = true;
  const Status trained = training_->run(std::move(from));
  const Trainer& trainer = training_->trainer();
  name_damaged(trainer.state().iteration);
  OMNI_CHECK(ended(trained));
  const bool at_end =
      spec_.snapshots.at_end ||
      (spec_.snapshots.every > 0 && trainer.state().iteration % spec_.snapshots.every == 0);
  OMNI_CHECK(gather_for_snapshot());
  // The weights are saved before the evaluation, so that a later failure does not lose them.
  if (const std::string& file = arguments_.save_weights; !file.empty()) {
    OMNI_CHECK(save_parameters(file, trainer.state()));
    if (const Status named = write_names_beside(file, identity_.class_names); !named)
      log::warn("{}", named.error().message());
  }
  if (at_end) OMNI_CHECK(save_snapshot(trainer.state()));
  OMNI_CHECK(ended(training_->evaluate()));
  if (caffe_log_) caffe_log_->end();
  share_damaged(trainer.state().iteration);
  OMNI_CHECK(task_status());
  if (shared_ == nullptr) {
    count_damaged();
    say_peak_memory();
  }
  if (const auto seconds = trainer.simulated_seconds())
    log::info("virtual clock: {}", simulated(*seconds));
  if (shared_ != nullptr) return {};  // all trainings have one table
  if (arguments_.common.json)
    print_summary();
  else if (arguments_.common.quiet && last_)
    log::result("{}\n", Progress::line(*last_, net().classes()));
  return {};
}

void TrainCommand::print_summary() const {
  const Trainer& trainer = training_->trainer();
  const TrainingState& state = trainer.state();
  nlohmann::ordered_json summary{
      {"net", groups().net().name()}, {"strategy", strategy_.type->name},
      {"groups", groups().count()},   {"iterations", state.iteration},
      {"images", state.samples},      {"loss_average", shown_single(state.average_loss)}};
  for (const DamagedImages* const found : damaged_sets())
    if (found->count() > 0)
      summary[found == data_->train->damaged() ? "damaged_images" : "damaged_test_images"] =
          found->count();
  if (const auto seconds = trainer.simulated_seconds()) summary["simulated_seconds"] = *seconds;
  if (last_) {
    summary["seconds"] = last_->at.seconds;
    summary["test_loss"] = shown_single(last_->tally.mean_loss());
    summary["test_accuracy"] = shown_single(last_->tally.accuracy());
  }
  log::result("{}\n", json_text(summary));
}

}  // namespace omni
