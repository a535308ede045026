// omni-run --net ...: trains.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/commands.hpp"
#include "apps/layer_table.hpp"
#include "apps/open_net.hpp"
#include "apps/progress.hpp"
#include "apps/run_folder.hpp"
#include "apps/setup.hpp"
#include "layers/formats/darknet_weights.hpp"
#include "runtime/log.hpp"
#include "scheduling/metrics_log.hpp"
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

// Where the parameters come from: a checkpoint, a .weights file, or the seed.
Result<TrainingState> starting_point(const TrainArguments& arguments, Net& net,
                                     const RunFolder& folder, const std::string& hash) {
  TrainingState fresh{.seed = arguments.data.seed};
  net.initialise(fresh.seed);
  std::optional<Checkpoint> checkpoint;
  if (arguments.resume == "auto") {
    OMNI_TRY(checkpoint, load_latest_checkpoint(folder.path()));
    if (!checkpoint) log::info("no checkpoint in {}: starting afresh", folder.path().string());
  } else if (arguments.resume != "none") {
    OMNI_TRY(checkpoint, load_checkpoint(arguments.resume));
  }
  if (checkpoint) {
    OMNI_TRY(const TrainingState state, restore_training(net, *checkpoint, hash));
    if (state.seed != arguments.data.seed)
      log::info("the checkpoint's seed {} is used", state.seed);
    log::info("resumed {} at iteration {}", checkpoint->path.string(), state.iteration);
    return state;
  }
  if (!arguments.weights.empty()) OMNI_CHECK(load_darknet_weights(net, arguments.weights));
  return fresh;
}

void print_summary(const TrainingState& state, const Net& net, const EvaluationReport& last,
                   bool evaluated) {
  nlohmann::ordered_json summary{
      {"net", net.name()},
      {"iterations", state.iteration},
      {"images", state.iteration * static_cast<std::uint64_t>(net.options().batch)},
      {"loss_average", state.average_loss}};
  if (evaluated) {
    summary["seconds"] = last.at.seconds;
    summary["test_loss"] = last.tally.mean_loss();
    summary["test_accuracy"] = last.tally.accuracy();
  }
  fmt::print("{}\n", summary.dump());
}

}  // namespace

Status train_command(const TrainArguments& arguments) {
  OMNI_TRY(const NetSpec spec, read_net(arguments.net));
  OMNI_TRY(const auto net, open_net(arguments.net, true));
  if (arguments.dry_run && arguments.common.json)
    fmt::print("{}\n", layer_table_json(*net).dump(2));
  if (!arguments.dry_run || !arguments.common.json) log::info("{}", layer_table(*net));
  if (arguments.dry_run) return {};
  warn_about_testing_mode(*net);

  OMNI_TRY(const DatasetPair data, open_data(arguments.data, *net));
  const std::string hash = layers_hash(spec);
  const bool resuming = arguments.resume != "none";
  OMNI_TRY(RunFolder folder,
           RunFolder::prepare(arguments.out, spec.name,
                              arguments.checkpoint_every > 0 || !arguments.out.empty() || resuming,
                              resuming, arguments.keep));

  OMNI_TRY(const Session session, start_session(arguments.machine));
  OMNI_CHECK(net->allocate());
  OMNI_TRY(const TrainingState start, starting_point(arguments, *net, folder, hash));

  DataFeed train(*data.train, feed_options(*net, start.seed, true, Trainer::kSlots));
  DataFeed test(*data.test, feed_options(*net, start.seed, false, Trainer::kSlots));
  OMNI_CHECK(train.allocate());
  OMNI_CHECK(test.allocate());

  std::optional<MetricsLog> metrics;
  if (!arguments.metrics.empty()) {
    OMNI_TRY(metrics, MetricsLog::open(arguments.metrics, start.iteration));
  }

  Progress progress = Progress::on_stderr(arguments.common.quiet);
  Status metrics_status;
  EvaluationReport last;
  bool evaluated = false;
  const std::uint64_t iterations = planned_iterations(arguments, *net, data.train->size());
  const auto per_epoch = static_cast<std::uint64_t>(
      std::ceil(static_cast<double>(data.train->size()) / net->options().batch));
  Trainer trainer(*net, train, &test, start,
                  {.iterations = iterations,
                   .display = arguments.display,
                   .evaluate_every = per_epoch,
                   .checkpoint_every = arguments.checkpoint_every},
                  {.on_iteration = [&](const StepReport& report) { progress.iteration(report); },
                   .on_step =
                       [&](const StepReport& report) {
                         progress.step(report);
                         if (metrics && metrics_status) metrics_status = metrics->step(report);
                       },
                   .on_evaluation =
                       [&](const EvaluationReport& report) {
                         progress.evaluation(report);
                         last = report;
                         evaluated = true;
                         if (metrics && metrics_status)
                           metrics_status = metrics->evaluation(report);
                       },
                   .save_checkpoint = [&](const TrainingState& state) -> Status {
                     OMNI_TRY(const auto path, folder.save(*net, state, hash));
                     progress.finish_line();
                     log::info("saved {}", path.string());
                     return {};
                   }});
  Status status = trainer.run();
  progress.finish_line();
  OMNI_CHECK(std::move(status));
  OMNI_CHECK(std::move(metrics_status));
  if (!arguments.save_weights.empty())
    OMNI_CHECK(save_darknet_weights(
        *net, arguments.save_weights,
        trainer.state().iteration * static_cast<std::uint64_t>(net->options().batch)));
  if (arguments.common.json) print_summary(trainer.state(), *net, last, evaluated);
  return {};
}

}  // namespace omni
