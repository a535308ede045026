// omni-run: command line in, exit code out.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "apps/command_line.hpp"
#include "apps/exit_codes.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/compare/arguments.hpp"
#include "apps/omni-run/memory/no_memory.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/rank_steps.hpp"
#include "apps/version.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/cuda/cuda_error.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/signals.hpp"

namespace omni {
namespace {

constexpr const char* kFooter = R"(Examples:
  omni-run --net lenet.cfg --data fashion-mnist --epochs 3
  omni-run --net alexnet.cfg --batch 64 --max-batches 100       (synthetic images)
  omni-run --net resnet-50 --data photos    (photos/train/CLASS/*.jpg and photos/val/CLASS/*.jpg)
  omni-run --net lenet.cfg --data fashion-mnist --epochs 10 --auto
  omni-run --net lenet.cfg --data fashion-mnist --checkpoint-every 100 --resume auto
  omni-run valid --net lenet.cfg --weights lenet.weights --data fashion-mnist
  omni-run compare --net lenet --data fashion-mnist --strategies sync,async:4 --target 0.9 --epochs 5

Exit codes: 0 ok, 1 run failed, 2 usage or net description, 3 bad data or model file, 4 out of memory,
5 device failure, 6 diverged, 75 asked to stop (a training writes a checkpoint unless nothing was done yet; the
last lines say how to go on), 128 + the signal's number: asked to stop twice, quit at once, nothing saved.)";

constexpr const char* kNamesHelp = "Names of the classes, one per line; default: the data's";

template <class Number>
void add_number(CLI::App& app, const char* name, Number& target, Number least, Number most,
                const char* help) {
  app.add_option(name, target, help)->check(CLI::Range(least, most))->capture_default_str();
}

void apply(const CommonArguments& common) {
  log::set_level(common.quiet ? log::Level::quiet : log::Level::normal);
}

int finish(const Status& status) {
  if (status) return kSuccess;
  if (status.error().kind == ErrorKind::interrupted)
    log::line(status.error().message());
  else
    log::error("{}", status.error().message());
  return exit_code(status.error().kind);
}

void add_training(CLI::App& app, TrainArguments& train) {
  app.add_option("--epochs", train.epochs, "Passes over the training set")
      ->check(CLI::Range(1e-6, 1e6));
  app.add_option("--display", train.display, "Iterations per report")
      ->transform(whole_number())
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("--weights", train.weights, "Start from a .weights file or checkpoint");
  app.add_option("--save-weights", train.save_weights, "Write Darknet .weights at the end");
  app.add_option("--metrics", train.metrics, "Write metrics, one JSON object per line");
  app.add_option("--out", train.out, "Run folder for checkpoints; default: omni-runs/<net>");
  app.add_option("--checkpoint-every", train.checkpoint_every, "Iterations per checkpoint; 0: none")
      ->transform(whole_number());
  add_number(app, "--keep", train.keep, 2, 1000, "Checkpoints to keep");
  app.add_option("--resume", train.resume, "auto, none, or a checkpoint")
      ->check(not_empty())
      ->capture_default_str();
  app.add_flag("--other-data", train.other_data,
               "Resume although the checkpoint was trained on other data");
  app.add_flag("--no-test", train.no_test, "No evaluation on the test set");
  app.add_option("--patience", train.patience,
                 "Seconds that a rank may be silent before the training over several ranks ends")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_flag("--dry-run", train.dry_run, "Check the net, print the layer table, stop");
}

// A command that needs workers, once it is known which.
template <class Arguments>
int run_command(Status (*command)(const Arguments&), Arguments& arguments) {
  apply(arguments.common);
  NetArguments* net = nullptr;
  if constexpr (requires { arguments.net; }) net = &arguments.net;
  if (const Status settled = settle_workers(arguments.machine, net); !settled)
    return finish(settled);
  return finish(command(arguments));
}

int run(int argc, char** argv) {
  CLI::App app("Omnivore trains deep networks on all processors of a machine, through StarPU.");
  app.footer(kFooter);
  app.set_version_flag(
      "--version", fmt::format("omni-run {} (StarPU {}, fmt {}.{})", kVersion, OMNI_STARPU_VERSION,
                               FMT_VERSION / 10000, FMT_VERSION / 100 % 100));
  app.option_defaults()->always_capture_default(false);

  TrainArguments train;
  add_common(app, train.common);
  CLI::App& training = *app.add_option_group("training");
  add_net(training, train.net);
  add_data(training, train.data);
  add_machine(training, train.machine);
  add_groups(training, train.groups);
  add_strategies(training, train.groups, train.arrivals);
  add_trace(training, train.trace);
  add_training(training, train);

  ValidArguments valid;
  CLI::App& valid_app =
      *app.add_subcommand("valid", "Loss and accuracy of weights on the test set");
  add_common(valid_app, valid.common);
  add_net(valid_app, valid.net);
  add_data(valid_app, valid.data);
  add_machine(valid_app, valid.machine);
  add_trace(valid_app, valid.trace);
  valid_app.add_option("--weights", valid.weights, ".weights file or checkpoint")->required();
  valid_app.add_option("--names", valid.names, kNamesHelp)->check(not_empty());
  valid_app.add_flag("--per-class", valid.per_class,
                     "Accuracy of every class, and what it is taken for");
  valid_app.add_option("--per-class-csv", valid.per_class_csv, "Write the confusion matrix as CSV")
      ->check(not_empty());

  PredictArguments predict;
  CLI::App& predict_app = *app.add_subcommand("predict", "The likeliest classes of images");
  add_common(predict_app, predict.common);
  add_net(predict_app, predict.net);
  add_data(predict_app, predict.data);
  add_machine(predict_app, predict.machine);
  predict_app.add_option("--weights", predict.weights, ".weights file or checkpoint")->required();
  predict_app.add_option("--index", predict.samples, "An image of the test set, by number")
      ->transform(whole_number())
      ->take_all()
      ->expected(1);
  add_number(predict_app, "--top", predict.top, 1, 1 << 30, "Classes to print");
  predict_app.add_option("--names", predict.names, kNamesHelp)->check(not_empty());
  predict_app.add_option("images,--image", predict.images,
                         "JPEG files, or binary PPM or PGM; a folder stands for all in it");

  TimeArguments time;
  CLI::App& time_app =
      *app.add_subcommand("time", "Time of every layer, on synthetic images, at learning rate 0");
  add_common(time_app, time.common);
  add_net(time_app, time.net);
  add_machine(time_app, time.machine);
  add_trace(time_app, time.trace);
  add_number(
      time_app, "--iterations", time.iterations, 1, 1 << 30,
      "Iterations to measure; with GPUs more tell of the layers, at most 20 without --trace");
  add_number(time_app, "--warm-up", time.warm_up, 1, 1 << 30, "Iterations before that");

  PlanArguments plan;
  CLI::App& plan_app = *app.add_subcommand(
      "plan", "What every number of compute groups would cost and save on this machine");
  add_common(plan_app, plan.common);
  add_net(plan_app, plan.net);
  add_machine(plan_app, plan.machine);
  add_fully_connected(plan_app, plan.fully_connected);
  add_number(plan_app, "--iterations", plan.iterations, 4, 100000, "Iterations to measure");
  add_number(plan_app, "--warm-up", plan.warm_up, 1, 1 << 30, "Iterations before that");
  add_number(plan_app, "--most-groups", plan.most_groups, 1, kMostGroups,
             "Groups up to this number");
  plan_app
      .add_option("--measure", plan.measured_rounds,
                  "Also run every number of groups, in so many rounds (3)")
      ->expected(0, 1)
      ->default_str("3")
      ->check(CLI::Range(1, 1000));

  add_data(plan_app, plan.data);
  plan_app
      .add_option("--measure-updates", plan.update_iterations,
                  "Also train with 1, 2, 4 ... groups to the loss that one group has after so many "
                  "iterations (400), and keep how many updates each needs; needs --data")
      ->expected(0, 1)
      ->default_str("400")
      ->check(CLI::Range(64, 1'000'000));

  CompareArguments compare;
  CLI::App& compare_app = add_compare(app, compare);

  CommonArguments layers;
  CLI::App& layers_app = *app.add_subcommand("layers", "What nets may contain");
  add_common(layers_app, layers);

  ExplainArguments explained;
  CLI::App& explain_app = *app.add_subcommand(
      "explain", "What --auto tried in a training, what it chose, why, and what that cost");
  add_common(explain_app, explained.common);
  explain_app
      .add_option("METRICS", explained.metrics, "The file of --metrics, or the folder of --trace")
      ->required();

  DevicesArguments devices;
  CLI::App& devices_app = *app.add_subcommand("devices", "The workers of this machine");
  add_common(devices_app, devices.common);
  add_machine(devices_app, devices.machine);
  devices_app.add_flag(
      "--peaks", devices.peaks,
      "Measure a matrix product and a copy on all CPU workers at once, and the product on GPUs");

  MachineFileArguments measured;
  CLI::App& measured_app = *app.add_subcommand(
      "machine", "Measure trainings on this machine; the result is a machine file");
  add_common(measured_app, measured.common);
  add_net(measured_app, measured.net);
  add_machine(measured_app, measured.machine);
  measured_app.add_option("--out", measured.out, "File to write; default: stdout")
      ->check(not_empty());

  // What users of other programs type: all that follows it is read as if it were not there.
  app.add_subcommand("train", "Trains, as without a subcommand")
      ->silent()
      ->fallthrough()
      ->set_help_flag();
  app.require_subcommand(0, 1);

  if (const auto code = read_command_line(app, argc, argv)) return *code;
  for (const MachineArguments* machine :
       {&train.machine, &valid.machine, &predict.machine, &time.machine, &plan.machine,
        &devices.machine, &measured.machine})
    if (machine->session.scheduler == "help") {
      log::result("{}\n", fmt::join(scheduler_names(), "\n"));
      return kSuccess;
    }
  if (const auto others = app.get_subcommands();
      ranks::several() && !others.empty() && others.front()->get_name() != "train") {
    log::error("omni-run {}: only trainings run over several ranks (start one process)",
               others.front()->get_name());
    return exit_code(ErrorKind::usage);
  }
  if (valid_app) return run_command(valid_command, valid);
  if (predict_app) return run_command(predict_command, predict);
  if (time_app) return run_command(time_command, time);
  if (plan_app) return run_command(plan_command, plan);
  if (compare_app) return apply(compare.common), finish(compare_command(compare));
  if (explain_app) return apply(explained.common), finish(explain_command(explained));
  if (layers_app) return apply(layers), finish(layers_command(layers));
  if (devices_app) return run_command(devices_command, devices);
  if (measured_app) return run_command(machine_command, measured);
  install_stop_signals("stopped; nothing was done yet that could be saved; to start again:\n  " +
                           for_shell(own_words()) + "\n",
                       exit_code(ErrorKind::interrupted));
  if (const Status prepared = prepare_ranks(train); !prepared) return finish(prepared);
  if (train.arrivals.simulated) train.machine.session.deterministic = true;
  return run_command(train_command, train);
}

// What GPUs end a run with has exit codes of its own.
int run_or_tell(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const OutOfGpuMemory& problem) {
    log::error("{}", problem.what());
    return exit_code(ErrorKind::out_of_memory);
  } catch (const CudaError& problem) {
    log::error("{}", problem.what());
    return exit_code(ErrorKind::device);
  }
}

}  // namespace
}  // namespace omni

int main(int argc, char** argv) {
  omni::end_in_order_without_memory();
  omni::make_writes_fail();
  // MPI has a handler of its own for SIGUSR1, which ours calls.
  if (const omni::Status joined = omni::ranks::start(omni::exit_code); !joined)
    return omni::finish(joined);
  omni::install_stop_signals("stopped\n", omni::exit_code(omni::ErrorKind::interrupted));
  if (!omni::ranks::first()) omni::stop_without_words();
  const int code = omni::exit_code_of(omni::run_or_tell, argc, argv);
  if (omni::ranks::several()) omni::ranks::leave(code);
  return code;
}
