// omni-run --net ...: trains.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/commands/slice_sizes.hpp"
#include "apps/omni-run/groups.hpp"
#include "apps/omni-run/layer_table.hpp"
#include "apps/omni-run/load_parameters.hpp"
#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/plan_groups.hpp"
#include "apps/omni-run/progress.hpp"
#include "apps/omni-run/run_folder.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/tracing.hpp"
#include "layers/formats/darknet_weights.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/memory/resident_memory.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/codelet.hpp"
#include "scheduling/cold_start.hpp"
#include "scheduling/metrics_log.hpp"
#include "scheduling/optimizer/tuned_training.hpp"
#include "scheduling/training_checkpoint.hpp"

namespace omni {
namespace {

// How many updates to do in all: --epochs if given, else what the net says.
std::uint64_t planned_iterations(const TrainArguments& arguments, const Net& net,
                                 std::size_t train_images) {
  const auto max_batches = static_cast<std::uint64_t>(net.options().solver.max_batches);
  if (!arguments.epochs) return max_batches;
  const auto iterations = static_cast<std::uint64_t>(
      std::ceil(*arguments.epochs * static_cast<double>(train_images) / net.options().batch));
  const bool limited = max_batches != 0 && arguments.net.overrides("max_batches");
  return limited ? std::min(iterations, max_batches) : iterations;
}

void warn_about_testing_mode(const Net& net) {
  // Darknet's shipped cfgs have batch=1 for testing, and users forget to switch.
  if (net.options().batch == 1) log::warn("training with batch=1; set --batch (128, say)");
}

struct Origin {
  std::optional<Checkpoint> checkpoint;
  bool same_folder = false;  // the checkpoint lies in the run folder: this run goes on
};

Result<Origin> find_origin(const TrainArguments& arguments, const std::filesystem::path& folder) {
  Origin origin;
  if (arguments.resume == "auto") {
    OMNI_TRY(origin.checkpoint, load_latest_checkpoint(folder));
    origin.same_folder = true;
    if (!origin.checkpoint) log::info("no checkpoint in {}: starting afresh", folder.string());
  } else if (arguments.resume != "none") {
    OMNI_TRY(origin.checkpoint, load_checkpoint(arguments.resume));
    std::error_code unequal;  // a folder that does not exist yet is not the same
    origin.same_folder =
        std::filesystem::equivalent(origin.checkpoint->path.parent_path(), folder, unequal);
  }
  return origin;
}

// Fills the parameters: from the checkpoint, a .weights file, or the seed.
Result<TrainingState> starting_point(const TrainArguments& arguments, ComputeGroups& groups,
                                     Workers workers, const std::optional<Checkpoint>& checkpoint,
                                     std::uint64_t seed, const std::string& hash) {
  groups.net().initialise(seed);
  if (checkpoint) {
    if (arguments.groups.automatic) {
      OMNI_TRY(const int saved, saved_groups(*checkpoint));
      groups.use(std::min(saved, groups.most()), workers);
    }
    OMNI_TRY(TrainingState state, restore_training(groups, *checkpoint, hash));
    if (!arguments.groups.automatic && state.tuning) {
      log::warn("{}: was tuned by --auto; without it, momentum and learning rate are the net's",
                checkpoint->path.string());
      state.tuning.reset();
    }
    log::info("resumed {} at iteration {}", checkpoint->path.string(), state.iteration);
    return state;
  }
  if (!arguments.weights.empty()) OMNI_CHECK(load_parameters(groups.net(), arguments.weights));
  groups.refresh_replicas();
  return TrainingState{.seed = seed};
}

// What a stop before the first update says.
std::string start_again() {
  return "; nothing was done yet, so nothing was saved; to start again:\n  " +
         for_shell(own_words());
}

void print_summary(const TrainingState& state, const Net& net, int groups,
                   const std::optional<EvaluationReport>& last) {
  nlohmann::ordered_json summary{
      {"net", net.name()},
      {"groups", groups},
      {"iterations", state.iteration},
      {"images", state.iteration * static_cast<std::uint64_t>(net.options().batch)},
      {"loss_average", state.average_loss}};
  if (last) {
    summary["seconds"] = last->at.seconds;
    summary["test_loss"] = last->tally.mean_loss();
    summary["test_accuracy"] = last->tally.accuracy();
  }
  log::result("{}\n", json_text(summary));
}

// What libraries load, generate and keep once they compute; the same for nets of all sizes
// (perf/RESULTS.md).
constexpr std::size_t kLibraries = 13 << 20;

}  // namespace

Status train_command(const TrainArguments& given) {
  TrainArguments arguments = given;
  OMNI_TRY(const NetSpec spec, read_net(arguments.net));
  OMNI_TRY(const Asynchrony asynchrony,
           chosen_asynchrony(arguments.groups, arguments.machine.session.deterministic));
  const bool automatic = arguments.groups.automatic;
  const bool one_group = !automatic && !arguments.groups.planned &&
                         arguments.groups.count.value_or(1) == 1 && arguments.groups.layout.empty();
  if (one_group) OMNI_CHECK(settle_slice(spec, arguments.machine, arguments.net));
  OMNI_TRY(ComputeGroups groups, automatic ? open_most_groups(spec, arguments)
                                           : open_groups(spec, arguments.net, arguments.groups));
  Net* net = &groups.net();
  OMNI_CHECK(check_planned(arguments));
  OMNI_CHECK(check_adam(arguments.groups, *net));
  OMNI_CHECK(check_automatic(arguments, *net));
  if (arguments.dry_run) {
    log::result("{}\n",
                arguments.common.json ? json_text(layer_table_json(*net), 2) : layer_table(*net));
    return {};
  }
  if (log::level() >= log::Level::normal) log::line(layer_table(*net));
  if (arguments.epochs && !std::isfinite(*arguments.epochs))
    return Error{ErrorKind::usage, "--epochs", "is not a number", "--epochs 3"};
  warn_about_testing_mode(*net);
  // Before hours of training rather than after.
  if (!arguments.save_weights.empty())
    OMNI_CHECK(try_writing(arguments.save_weights, net->parameter_count() * sizeof(float)));

  std::error_code none;
  if (arguments.resume == "none" && std::filesystem::is_regular_file(arguments.metrics, none))
    OMNI_CHECK(MetricsLog::open(arguments.metrics, std::nullopt));  // refuses another run's

  const auto out = RunFolder::place(arguments.out, spec.name);
  OMNI_TRY(const Origin origin, find_origin(arguments, out));
  DataArguments data_arguments = arguments.data;
  data_arguments.test = !arguments.no_test;
  if (origin.checkpoint) {
    OMNI_TRY(data_arguments.seed, origin.checkpoint->fields.number<std::uint64_t>("seed"));
    if (data_arguments.seed != arguments.data.seed)
      log::info("the checkpoint's seed {} is used", data_arguments.seed);
    if (!arguments.weights.empty())
      log::warn("--weights {}: not read, the parameters are the checkpoint's", arguments.weights);
  } else if (!arguments.weights.empty()) {
    OMNI_CHECK(require_there(arguments.weights));
  }
  OMNI_TRY(const DatasetPair data, open_data(data_arguments, *net));
  if (static_cast<std::size_t>(net->options().batch) > data.train->size())
    log::info("a batch of {} is more than the {} training images: some are in it several times",
              net->options().batch, data.train->size());
  if (origin.checkpoint && !arguments.other_data)
    OMNI_CHECK(require_same_data(*origin.checkpoint, data.name));
  const bool checkpoints_wanted =
      arguments.checkpoint_every > 0 || !arguments.out.empty() || arguments.resume != "none";
  OMNI_TRY(RunFolder folder, RunFolder::prepare(out, checkpoints_wanted, origin.same_folder,
                                                arguments.keep, TrainingSnapshot::bytes(groups)));
  if (checkpoints_wanted && arguments.checkpoint_every == 0)
    log::info("checkpoints: only when the run is stopped (--checkpoint-every 1000, say)");

  OMNI_TRY(const Session session, start_session(arguments.machine));
  const std::size_t program = resident_memory();  // before anything is measured
  const std::uint64_t iterations = planned_iterations(arguments, *net, data.train->size());
  if (one_group) {
    OMNI_TRY(const int slice, slice_worth_measuring(spec, arguments.net, arguments.machine, *net,
                                                    *data.train, iterations));
    if (slice != 0) {
      arguments.net.slice = slice;
      OMNI_TRY(groups, open_groups(spec, arguments.net, arguments.groups));
      net = &groups.net();
    }
  }
  GroupPlan plan;
  if (arguments.groups.planned) {
    OMNI_TRY(ChosenGroups chosen,
             choose_groups(arguments, origin.checkpoint, session, *data.train));
    log::info("chose {} compute group{}: {}", chosen.count, chosen.count == 1 ? "" : "s",
              chosen.reason);
    plan = std::move(chosen.plan);
    arguments.groups.count = chosen.count;
    if (chosen.count == 1) OMNI_CHECK(settle_slice(spec, arguments.machine, arguments.net));
    OMNI_TRY(groups, open_groups(spec, arguments.net, arguments.groups));
    net = &groups.net();
  }
  OMNI_CHECK(assign_workers(groups, arguments.groups, session));
  warn_about_groups(groups, arguments.groups, iterations);
  DataFeed train(*data.train,
                 feed_options(*net, data_arguments.seed, true, Trainer::slots(groups)));
  std::optional<DataFeed> test_feed;
  if (data.test)
    test_feed.emplace(*data.test, feed_options(*net, data_arguments.seed, false, kEvaluationSlots));
  DataFeed* const test = test_feed ? &*test_feed : nullptr;
  const std::size_t snapshots =
      automatic ? TunedTraining::kSnapshots * TrainingSnapshot::bytes(groups) : 0;
  MemoryDemand demand = training_demand(groups, train, test, groups.net().working_bytes());
  const std::size_t images = train.bytes() + (test != nullptr ? test->bytes() : 0),
                    working = kLibraries + static_cast<std::size_t>(cpu_workers(session)) *
                                               demand.working.of_core;
  demand.in_main_memory_only = snapshots + working;
  const MemoryForecast forecast(*net, std::move(demand), arguments.machine);
  OMNI_CHECK(forecast.require());
  const std::size_t planned = forecast.in_main_memory();
  const auto mebibytes = [](std::size_t bytes) { return static_cast<double>(bytes) / 0x1p20; };
  const std::size_t taken = peak_resident_memory();
  log::info(
      "memory: {:.0f} MiB planned, {:.0f} of them for images that wait, {:.0f} to compute with, "
      "{:.0f} for the program{}{}",
      mebibytes(planned + program), mebibytes(images), mebibytes(working), mebibytes(program),
      taken > planned + program ? fmt::format("; it took {:.0f} before", mebibytes(taken)) : "",
      gpus_compute() ? fmt::format("; {:.0f} on each GPU, {:.0f} of them to compute with",
                                   mebibytes(forecast.on_each_gpu().all()),
                                   mebibytes(forecast.on_each_gpu().working))
                     : "");
  OMNI_CHECK(groups.allocate());
  OMNI_CHECK(train.allocate());
  if (test != nullptr) OMNI_CHECK(test->allocate());
  const RunIdentity identity{.layers = layers_hash(spec), .data = data.name};
  const Workers workers = workers_of(session);
  OMNI_TRY(const TrainingState start, starting_point(arguments, groups, workers, origin.checkpoint,
                                                     data_arguments.seed, identity.layers));
  OMNI_TRY(const auto recorder, start_trace(arguments.trace, session, *net));

  std::optional<MetricsLog> metrics;
  std::filesystem::path metrics_file = arguments.metrics;
  if (metrics_file.empty() && recorder) metrics_file = recorder->folder() / "metrics.jsonl";
  if (!metrics_file.empty()) {
    const auto resumed = arguments.resume != "none" ? std::optional(start.iteration) : std::nullopt;
    OMNI_TRY(metrics, MetricsLog::open(metrics_file, resumed));
  }
  // Metrics that cannot be written are no reason to lose a training.
  const auto record = [&metrics](auto write) {
    if (!metrics) return;
    if (Status written = write(*metrics); !written) {
      log::warn("{}; no more metrics", written.error().message());
      metrics.reset();
    }
  };

  for (const GroupPlan::Row& row : plan.rows)
    record([&](MetricsLog& log) {
      return log.planned(row, row.groups == groups.count(), start.iteration);
    });

  Progress progress = Progress::on_stderr(arguments.common.quiet);
  std::optional<EvaluationReport> last;
  if (iterations != 0 && start.iteration >= iterations)
    log::info("already at iteration {} of {}: nothing to do (raise --epochs or --max-batches)",
              start.iteration, iterations);
  const auto per_epoch = static_cast<std::uint64_t>(
      std::ceil(static_cast<double>(data.train->size()) / net->options().batch));
  const TrainerOptions options{
      .iterations = iterations,
      .display = arguments.display,
      .evaluate_every = per_epoch,
      .checkpoint_every = arguments.checkpoint_every,
      .asynchrony = asynchrony,
      .compensation = arguments.groups.compensation.value_or(Compensation::theory)};
  const TrainerEvents events{
      .on_iteration = [&](const StepReport& report) { progress.iteration(report); },
      .on_step =
          [&](const StepReport& report) {
            progress.step(report);
            record([&](MetricsLog& log) { return log.step(report); });
          },
      .on_evaluation =
          [&](const EvaluationReport& report) {
            progress.evaluation(report);
            last = report;
            record([&](MetricsLog& log) { return log.evaluation(report); });
          },
      .save_checkpoint = [&](const TrainingState& state) -> Status {
        OMNI_TRY(const auto path, folder.save(groups, state, identity));
        progress.finish_line();
        log::info("saved {}", path.string());
        return {};
      }};
  // With a Trainer or a TunedTraining.
  const auto train_with = [&](auto& trainer) -> Status {
    const auto ended = [&](Status status) {
      progress.finish_line();
      if (!status && status.error().kind == ErrorKind::interrupted) {
        const bool saved = trainer.state().iteration != start.iteration;
        status.error().what += saved ? "; to go on:\n  " + folder.resume_command() : start_again();
        status.error().hint.clear();
      }
      return status;
    };
    stop_in_order();
    OMNI_CHECK(ended(trainer.run()));
    // The weights before the evaluation: nothing that fails later may cost them.
    if (!arguments.save_weights.empty())
      OMNI_CHECK(save_darknet_weights(
          *net, arguments.save_weights,
          trainer.state().iteration * static_cast<std::uint64_t>(net->options().batch)));
    OMNI_CHECK(ended(trainer.evaluate_now()));
    log::info("memory: {:.0f} MiB at most", mebibytes(peak_resident_memory()));
    if (arguments.common.json)
      print_summary(trainer.state(), *net, groups.count(), last);
    else if (arguments.common.quiet && last)
      log::result("{}\n", Progress::line(*last));
    return {};
  };
  if (!automatic) {
    const auto regroup = [&, count = groups.count()] {
      progress.finish_line();
      groups.use(count, workers);
      (void)assign_workers(groups, arguments.groups, session);  // it succeeded before
    };
    ColdStartedTraining trainer(groups, train, test, start, options, events,
                                arguments.groups.cold_start, workers, regroup);
    return train_with(trainer);
  }
  TunedTraining trainer(
      groups, train, test, start, options, workers,
      {.training = events,
       .say =
           [&](const std::string& line) {
             progress.finish_line();
             log::info("{}", line);
           },
       .on_search =
           [&](std::span<const Trial> trials, std::uint64_t iteration) {
             for (const Trial& trial : trials)
               record([&](MetricsLog& log) { return log.trial(trial, iteration); });
           },
       .on_groups =
           [&](const Saturation& found, std::uint64_t iteration) {
             for (const Saturation::Timing& timing : found.timings)
               record([&](MetricsLog& log) {
                 return log.timed(timing, timing.groups == found.groups, iteration);
               });
           }});
  return train_with(trainer);
}

}  // namespace omni
