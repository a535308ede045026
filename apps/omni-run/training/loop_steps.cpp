// What happens while a training trains, and at its end.
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/group_options.hpp"
#include "apps/omni-run/training/training.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/log.hpp"
#include "runtime/memory/memory_limits.hpp"
#include "runtime/number_in.hpp"
#include "runtime/own_command.hpp"
#include "runtime/signals.hpp"
#include "runtime/slurm_job.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/pilots/growing.hpp"
#include "scheduling/pilots/guarded_training.hpp"
#include "scheduling/pilots/tuning/tuned_training.hpp"

namespace omni {
namespace {

// As these ranks were started, but for the names of hosts.
std::string launcher() {
  if (!ranks::several()) return "";
  const auto launch = ranks::read_launch([](const char* name) { return std::getenv(name); });
  return fmt::format("{} -n {} ", launch && launch->by_hydra ? "mpiexec" : "srun --mpi=pmi2",
                     ranks::size());
}

}  // namespace

Status train_command(const TrainArguments& arguments) {
  Training training(arguments);
  Status status = training.run();
  // What all ranks agreed on they end with in order.
  if (!status && status.error().kind != ErrorKind::interrupted &&
      status.error().kind != ErrorKind::diverged)
    ranks::leave_for(status.error());
  return status;
}

Status Training::open_metrics() {
  std::filesystem::path file = arguments_.metrics;
  if (file.empty() && recorder_) file = recorder_->folder() / "metrics.jsonl";
  if (!file.empty() && ranks::first()) {
    const auto resumed =
        arguments_.resume != "none" ? std::optional(start_.iteration) : std::nullopt;
    OMNI_TRY(metrics_, MetricsLog::open(file, resumed));
    if (!slurm::job().empty() && !is_finished()) OMNI_CHECK(metrics_->job(start_.iteration));
  }
  // A process that was killed may have evaluated what it had saved before.
  if (ranks::any(metrics_ && metrics_->has_evaluation(start_.iteration)))
    start_.owes_evaluation = false;
  return {};
}

TrainerOptions Training::options() {
  const auto per_epoch = static_cast<std::uint64_t>(
      std::ceil(static_cast<double>(data_.train->size()) / net().options().batch));
  StrategyChoice choice = strategy_;
  if (choice.type->models == GroupModels::one) choice.options.asynchrony = asynchrony_;
  return {.iterations = iterations_,
          .solver = spec_.solver,
          .schedule = iterations_,
          .seconds_before = start_.seconds,
          .display = arguments_.display,
          .evaluate_every = arguments_.test_every.value_or(per_epoch),
          .checkpoint_every = arguments_.checkpoint_every,
          .strategy = choice.make(),
          .feeds = feed_of_group_,
          .clock = clock_ ? &*clock_ : nullptr,
          .health = ranks::several() ? nullptr : &*health_};
}

TrainerEvents Training::events() {
  return {.on_iteration =
              [this](const StepReport& report) {
                time_limit_.note_iteration();
                name_damaged(report.iteration, Finder::this_rank);
                progress_.iteration(report);
              },
          .on_step =
              [this](const StepReport& report) {
                progress_.step(report);
                record(&MetricsLog::step, report);
              },
          .on_evaluation =
              [this](const EvaluationReport& report) {
                time_limit_.pause();
                progress_.evaluation(report, net().classes());
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
              }};
}

Status Training::train() {
  health_.emplace(net(), *data_.train,
                  HealthOptions{.solver = spec_.solver,
                                .strict = arguments_.net.strict,
                                .warn = [this](const std::string& text) {
                                  progress_.finish_line();
                                  log::warn("{}", text);
                                }});
  if (!arguments_.other_data) health_->take(start_.health);
  if (!is_finished()) {
    name_damaged(start_.iteration, Finder::this_rank);
    for (const GroupPlan::Row& row : plan_.rows)
      record(&MetricsLog::planned, row, row.groups == groups_->count(), start_.iteration);
  } else {
    log::info("already at iteration {} of {}: nothing to do (raise --epochs or --max-batches)",
              start_.iteration, iterations_);
  }
  const Workers workers = workers_of(*session_);
  const auto say = [this](const std::string& line) {
    progress_.finish_line();
    log::info("{}", line);
  };
  if (strategy_.grows) {
    GrowingTraining trainer(*groups_, *feeds_.front(), test(), start_, options(), events(), workers,
                            strategy_.type->least_groups, say);
    return train_with(trainer);
  }
  if (!arguments_.groups.automatic) {
    const auto use_groups = [&, count = groups_->count()](bool all) {
      progress_.finish_line();
      groups_->use(all ? count : 1, workers);
      if (all)  // it succeeded before
        (void)assign_workers(*groups_, arguments_.groups, strategy_.type->models, *session_);
      if (clock_) *clock_ = *make_clock_(groups_->count());  // the time comes from the state
    };
    GuardedTraining trainer(*groups_, *feeds_.front(), test(), start_, options(), events(),
                            guarded(), {arguments_.groups.cold_start, use_groups});
    return train_with(trainer);
  }
  TunedTraining trainer(
      *groups_, *feeds_.front(), test(), start_, options(), workers,
      {.training = events(),
       .say = say,
       .on_search =
           [this](std::span<const Trial> trials, std::uint64_t iteration) {
             for (const Trial& trial : trials) record(&MetricsLog::trial, trial, iteration);
           },
       .on_return =
           [this](const std::string& reason, std::uint64_t iteration, std::uint64_t to,
                  double rate) { record(&MetricsLog::returned, to, rate, reason, iteration); },
       .on_groups =
           [this](const Saturation& found, std::uint64_t iteration) {
             for (const Saturation::Timing& timing : found.timings)
               record(&MetricsLog::timed, timing, timing.groups == found.groups, iteration);
           }},
      machine_ ? Asynchrony::reproducible : asynchrony_, make_clock_);
  return train_with(trainer);
}

Status Training::ended(Status status) {
  progress_.finish_line();
  if (!status && status.error().kind == ErrorKind::interrupted) {
    if (health_->failure()) return health_->failure()->error();
    status.error().what +=
        saved_ && folder_ ? "; to go on:\n  " + launcher() + folder_->resume_command()
                          : "; nothing was done yet, so nothing was saved; to start again:\n  " +
                                launcher() + for_shell(own_words());
    status.error().hint.clear();
  }
  return status;
}

template <class AnyTrainer>
Status Training::train_with(AnyTrainer& trainer) {
  stop_in_order();
  const Status trained = trainer.run();
  name_damaged(trainer.state().iteration, Finder::this_rank);
  OMNI_CHECK(ended(trained));
  // The weights before the evaluation: nothing that fails later may cost them.
  if (const std::string& file = arguments_.save_weights; !file.empty()) {
    OMNI_CHECK(save_darknet_weights(net(), file, trainer.state().samples));
    std::error_code ignored;
    log::info("saved {} ({} bytes)", file, std::filesystem::file_size(file, ignored));
    if (const Status named = write_names_beside(file, identity_.class_names); !named)
      log::warn("{}", named.error().message());
  }
  OMNI_CHECK(ended(trainer.evaluate_now()));
  share_damaged(trainer.state().iteration);
  OMNI_CHECK(task_status());
  count_damaged();
  log::info("memory: {:.0f} MiB at most", static_cast<double>(peak_resident_memory()) / 0x1p20);
  if (const auto seconds = simulated_seconds(trainer.state()))
    log::info("virtual clock: {}", simulated(*seconds));
  if (arguments_.common.json)
    print_summary(trainer.state());
  else if (arguments_.common.quiet && last_)
    log::result("{}\n", Progress::line(*last_, net().classes()));
  return {};
}

// By all clocks of the training, those of trials included.
std::optional<double> Training::simulated_seconds(const TrainingState& state) const {
  if (!machine_) return std::nullopt;
  return (state.tuning ? state.tuning->simulated : 0) +
         (state.arrivals ? state.arrivals->clock.now : 0);
}

void Training::print_summary(const TrainingState& state) const {
  nlohmann::ordered_json summary{
      {"net", groups_->net().name()}, {"strategy", strategy_.type->name},
      {"groups", groups_->count()},   {"iterations", state.iteration},
      {"images", state.samples},      {"loss_average", shown_single(state.average_loss)}};
  for (const DamagedImages* const found : damaged_sets())
    if (found->count() > 0)
      summary[found == data_.train->damaged() ? "damaged_images" : "damaged_test_images"] =
          found->count();
  if (const auto seconds = simulated_seconds(state)) summary["simulated_seconds"] = *seconds;
  if (last_) {
    summary["seconds"] = last_->at.seconds;
    summary["test_loss"] = shown_single(last_->tally.mean_loss());
    summary["test_accuracy"] = shown_single(last_->tally.accuracy());
  }
  log::result("{}\n", json_text(summary));
}

}  // namespace omni
