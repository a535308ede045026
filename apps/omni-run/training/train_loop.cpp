// These functions of TrainCommand work while the training runs, and at its end.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/groups/group_options.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "apps/omni-run/training/train_command.hpp"
#include "runtime/communicator/keeper.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/own_command.hpp"
#include "runtime/signals.hpp"
#include "runtime/slurm_job.hpp"
#include "runtime/tasks/task_errors.hpp"

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
  std::filesystem::path file = inputs_.arguments.metrics;
  if (file.empty() && recorder_) file = recorder_->folder() / "metrics.jsonl";
  if (!file.empty() && ranks::first()) {
    const auto resumed =
        inputs_.arguments.resume != "none" ? std::optional(start_.iteration) : std::nullopt;
    const bool is_job = !slurm::job().empty() && !is_finished();
    OMNI_CHECK(report_.open_metrics(file, resumed,
                                    is_job ? std::optional(start_.iteration) : std::nullopt));
  }
  if (const std::string& shares = inputs_.identity.rank_shares; !shares.empty())
    report_.record(&MetricsLog::rank_shares, start_.iteration, shares, inputs_.identity.rank_nodes);
  // A killed process may have written the evaluation to the metrics after it saved the checkpoint.
  // The evaluation is repeated only for pilots that need it.
  const bool is_done = ranks::any(report_.has_evaluation(start_.iteration));
  const bool is_needed = std::ranges::any_of(training_->pilots(), [](const auto& pilot) {
    const PilotType* type = find_pilot(pilot->name());
    return type && type->needs_tests;
  });
  if (is_done && !is_needed) start_.owes_evaluation = false;
  return {};
}

std::uint64_t TrainCommand::per_epoch() const {
  return static_cast<std::uint64_t>(
      std::ceil(static_cast<double>(inputs_.data->train->size()) / groups().net().options().batch));
}

TrainerOptions TrainCommand::lengths() {
  return {.iterations = inputs_.iterations,
          .schedule = inputs_.iterations,
          .evaluate_every = inputs_.arguments.test_every.value_or(per_epoch()),
          .checkpoint_every = inputs_.arguments.checkpoint_every,
          .snapshot_every = inputs_.spec.snapshots.every,
          .make_clock = make_clock_,
          .use_groups = [this, all = groups().count()](int count) -> Status {
            OMNI_CHECK(training_->use_groups(count));
            if (inputs_.arguments.groups.automatic || inputs_.strategy.grows || count != all)
              return {};
            report_.finish_line();
            return assign_workers(groups(), inputs_.arguments.groups, inputs_.strategy.type->models,
                                  *session_);
          }};
}

TrainerEvents TrainCommand::events() {
  return {
      .on_iteration =
          [this](const StepReport& report) {
            time_limit_.note_iteration();
            trained_samples_ = report.images;
            damage_->name(report.iteration);
            report_.iteration(report);
          },
      .is_reported = [this](std::uint64_t iteration) { return report_.is_reported(iteration); },
      .on_step = [this](const StepReport& report) { report_.step(report, stream()); },
      .on_evaluation =
          [this](const EvaluationReport& report) {
            time_limit_.pause();
            last_ = report;
            report_.evaluation(report, net().classes());
            damage_->share(report.at.iteration);
          },
      .save_checkpoint =
          [this](const TrainingState& state) {
            Stopwatch watch;
            Status saved = save(state);
            time_limit_.note_save(watch.seconds());
            saved_ = saved_ || saved;
            if (saved) ranks::tell_keeper_saved(state.iteration);
            return saved;
          },
      .save_snapshot =
          [this](const TrainingState& state) { return parameter_output_->save_snapshot(state); },
      .keep_best =
          [this] { return on_first_rank([this] { return folder_->store().mark_best(); }); },
      .say = [this](const std::string& text) { report_.say(text); },
      .warn = [this](const std::string& text) { report_.warn(text); },
      .record =
          [this](const nlohmann::ordered_json& line) {
            report_.record(&MetricsLog::record, line);
          }};
}

Status TrainCommand::ended(Status status) {
  report_.finish_line();
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
    damage_->record_from(start_.iteration);
    for (const GroupPlan::Row& row : group_plan_.rows)
      report_.record(&MetricsLog::planned, row, row.groups == groups().count(), start_.iteration);
    report_.begin(inputs_.arguments.display.value_or(20), inputs_.spec);
  } else {
    log::info("already at iteration {} of {}: nothing to do (raise --epochs or --max-batches)",
              start_.iteration, planned());
  }
  if (shared_ == nullptr) stop_in_order();
  TrainingState from = start_;
  start_.kept.clear();  // only the pilots hold these states from now on
  trained_ = true;
  const Status trained = training_->run(std::move(from));
  damage_->name(state().iteration);
  OMNI_CHECK(ended(trained));
  // The weights are saved before the evaluation, so that a later failure does not lose them.
  OMNI_CHECK(parameter_output_->save_at_end(state(), inputs_.identity.class_names));
  OMNI_CHECK(ended(training_->evaluate()));
  report_.end_caffe_log();
  damage_->share(state().iteration);
  OMNI_CHECK(task_status());
  if (shared_ == nullptr) {
    damage_->count();
    say_peak_memory();
  }
  if (const auto seconds = training_->trainer().simulated_seconds())
    log::info("virtual clock: {}", simulated(*seconds));
  if (shared_ != nullptr) return {};  // all trainings have one table
  if (inputs_.arguments.common.json)
    print_summary();
  else if (inputs_.arguments.common.quiet && last_)
    log::result("{}\n", Progress::line(*last_, net().classes()));
  return {};
}

void TrainCommand::shorten(std::uint64_t half) {
  const std::uint64_t batch = net().options().batch;
  inputs_.iterations = 2 * ((half + batch - 1) / batch);
}

Result<double> TrainCommand::prepare_samples() {
  const Recorder::Scope own_trace(recorder_.get());
  const std::uint64_t half = last_sample() / 2;
  Stopwatch watch;
  std::uint64_t warm = 0, last = 0;
  OMNI_CHECK(training_->prepare_samples(2 * half, [&](std::uint64_t ready) {
    last = ready;
    if (warm > 0 || ready < half) return;
    warm = ready;
    watch = Stopwatch();
  }));
  return static_cast<double>(last - warm) / watch.seconds();
}

Status TrainCommand::save(const TrainingState& state) {
  if (RankSums* sums = training_->sums()) OMNI_CHECK(sums->gather_memory());
  constexpr std::size_t kMostNoted = 500'000;  // as the size of a checkpoint's header is bounded
  damage_->share(state.iteration);
  TrainingState noted = state;
  if (const DamagedImages* const found = damage_->of_training(); found != nullptr)
    noted.damaged = found->indices();
  noted.damaged.resize(std::min(noted.damaged.size(), kMostNoted));
  OMNI_CHECK(on_first_rank([this] { return folder_->open_unused(); }));
  if (!ranks::first()) bring_arrays(groups());
  return on_first_rank([&]() -> Status {
    OMNI_TRY(const auto path, save_training(folder_->store(), groups(), noted, inputs_.identity));
    report_.say("saved " + path.string());
    return {};
  });
}

void TrainCommand::print_summary() const {
  const Trainer& trainer = training_->trainer();
  const TrainingState& state = trainer.state();
  nlohmann::ordered_json summary{
      {"net", groups().net().name()}, {"strategy", inputs_.strategy.type->name},
      {"groups", groups().count()},   {"iterations", state.iteration},
      {"images", state.samples},      {"loss_average", shown_single(state.average_loss)}};
  for (const auto& [key, found] : {std::pair("damaged_images", damage_->of_training()),
                                   std::pair("damaged_test_images", damage_->of_test())})
    if (found != nullptr && found->count() > 0) summary[key] = found->count();
  if (const auto seconds = trainer.simulated_seconds()) summary["simulated_seconds"] = *seconds;
  if (last_) {
    summary["seconds"] = last_->at.seconds;
    summary["test_loss"] = shown_single(last_->tally.mean_loss());
    if (last_->at.has_classes) summary["test_accuracy"] = shown_single(last_->tally.accuracy());
  }
  log::result("{}\n", json_text(summary));
}

}  // namespace omni
