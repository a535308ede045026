// omni-run reads the command line, runs the command and returns the exit code.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "apps/command_line.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/ensemble/outcome.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/slurm/sbatch_options.hpp"
#include "runtime/communicator/keeper.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/cuda/cuda_error.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/signals.hpp"
#include "runtime/slurm_job.hpp"
#include "scheduling/policy/omni_policy.hpp"

namespace omni {
namespace {

constexpr const char* kFooter =
#include "apps/omni-run/footer.txt"
    ;

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

// Reads the training's part of the command line of `omni-run slurm`, as the job will read it.
std::optional<int> read_training(std::vector<std::string> words, SlurmArguments& job,
                                 TrainArguments& train) {
  std::vector<std::string> own{"--template", "--sweep"};
  for (const auto& [option, value] : job.options) own.push_back(option);
  // All words after -- belong to the training, and words before it that are no options of the job.
  const auto end = std::ranges::find(words, "--");
  job.words = words_without(own, {words.begin() + 2, end});
  if (end != words.end()) job.words.insert(job.words.end(), end + 1, words.end());
  const TrainArguments usual;
  train = usual;
  return read_options(table_of(train), job.words, job.given);
}

// Repeats --sweep before each of its values, because CLI11 reads one value of an option at a time.
std::vector<std::string> one_by_one(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  bool is_swept = false;  // the word before is a value of --sweep
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_value = i > 0 && words[i - 1] == "--sweep";
    if (is_swept && !words[i].starts_with('-')) all.emplace_back("--sweep");
    is_swept = is_value || (is_swept && !words[i].starts_with('-'));
    all.push_back(words[i]);
  }
  return all;
}

// Reads the members of `omni-run ensemble`, and trains them.
int run_ensemble(const std::vector<std::string>& words, EnsembleArguments& ensemble) {
  std::vector<std::string> own;  // options with a value
  for (const char* option :
       {"--net", "--members", "--sweep", "--stop", "--exploit", "--part", "--share", "--preparers",
        "--window", "--spread", "--move-gain", "--prepare-only", "--out"})
    own.emplace_back(option);
  // The machine of a plan is not that of a member's virtual clock.
  if (ensemble.plan) own.insert(own.end(), {"--machine", "--arrivals"});
  ensemble.words = words_without(own, {words.begin() + 2, words.end()});
  std::erase_if(ensemble.words, [](const std::string& word) {
    return word == "-q" || word == "--quiet" || word == "--json" || word == "--plan";
  });
  apply(ensemble.common);
  for (;;) {
    std::vector<Member> members;
    if (const auto code = read_members(ensemble, members)) return *code;
    const bool is_last =
        ensemble.is_last_wave || members.front().arguments.dry_run || ensemble.prepare_only;
    const bool strict = members.front().arguments.net.strict;
    const Status trained = train_ensemble(ensemble, std::move(members));
    if (is_last || !is_followed(trained, strict)) return finish(trained);
  }
}

// Runs a command. If it needs workers, these are chosen first.
template <class Arguments>
int run_command(Status (*command)(const Arguments&), Arguments& arguments) {
  apply(arguments.common);
  if constexpr (requires { arguments.trace; })
    if (const Status room = try_trace(arguments.trace); !room) return finish(room);
  if constexpr (requires { arguments.machine.session; }) {
    NetArguments* net = nullptr;
    if constexpr (requires { net = &arguments.net; }) net = &arguments.net;
    if constexpr (requires { net->data = arguments.data.source; })
      if (net != nullptr) net->data = arguments.data.source;
    if (const Status settled = settle_workers(arguments.machine, net); !settled)
      return finish(settled);
  }
  return finish(command(arguments));
}

// Commands has the commands besides train, ensemble and slurm, each with its arguments.
class Commands {
 public:
  explicit Commands(CLI::App& app) : app_(app) {
    add("valid", "Loss and accuracy of weights, or of an ensemble, on the test set", valid_,
        valid_command);
    add("predict", "The likeliest classes of images", predict_, predict_command);
    add("time", "Time of every layer, on synthetic images, at learning rate 0", time_,
        time_command);
    add("plan", "Predict times for every number of compute groups, or of a GPU that is not here",
        plan_, plan_command);
    add("compare", "Train by several strategies with several seeds: time and epochs to an accuracy",
        compare_, compare_command);
    add("data", "Check a data set: damaged files, classes, duplicates, sizes", checked_,
        data_command);
    add("dataset", "Make an LMDB of images, or show one; compute the mean of images", made_,
        dataset_command);
    add("net", "The shipped nets; with NAME: the text of one", shipped_, shipped_net_command);
    add("convert", "Write parameters in another format, if that loses nothing", converted_,
        convert_command);
    layers_app_ = app.add_subcommand("layers", "The sections and keys that a net may contain");
    add_options(*layers_app_, table_of(layers_));
    add("explain", "The trials of --auto in a training: values, choices, reasons, cost", explained_,
        explain_command);
    add("devices", "The workers of this machine", devices_, devices_command);
    add("machine", "Measure trainings on this machine, and write a machine file", measured_,
        machine_command);
  }

  bool lists_schedulers() const {
    return std::ranges::any_of(
        machines_, [](const auto* machine) { return machine->session.scheduler == "help"; });
  }

  // Returns the exit code of the command; none: the command is train, ensemble or slurm.
  std::optional<int> run() {
    const auto given = app_.get_subcommands();
    const std::string name = given.empty() ? "train" : given.front()->get_name();
    if (ranks::several() && name != "train" && name != "ensemble") {
      if (name != "plan" && name != "devices") {
        log::error(
            "omni-run {}: only trainings, ensembles, devices and plan run over several ranks "
            "(start one "
            "process)",
            name);
        return exit_code(ErrorKind::usage);
      }
      share_workers(name == "plan" ? plan_.machine : devices_.machine);
      plan_.links = devices_.links = ranks::measure_links();
      ranks::disband();
    }
    if (*layers_app_) return apply(layers_.common), finish(layers_command(layers_));
    if (name == "plan" && !plan_.gpu.empty())
      return apply(plan_.common), finish(plan_gpu_command(plan_));
    const auto own = runs_.find(name);
    return own == runs_.end() ? std::nullopt : std::optional(own->second());
  }

 private:
  template <class Arguments>
  void add(const char* name, const char* what, Arguments& arguments,
           Status (*command)(const Arguments&)) {
    add_options(*app_.add_subcommand(name, what), table_of(arguments));
    if constexpr (requires { arguments.machine.session; }) machines_.push_back(&arguments.machine);
    runs_[name] = [command, &arguments] { return run_command(command, arguments); };
  }

  CLI::App& app_;
  CLI::App* layers_app_;
  ValidArguments valid_;
  PredictArguments predict_;
  TimeArguments time_;
  PlanArguments plan_;
  CompareArguments compare_;
  DataCheckArguments checked_;
  DatasetArguments made_;
  LayersArguments layers_;
  ShippedNetArguments shipped_;
  ConvertArguments converted_;
  ExplainArguments explained_;
  DevicesArguments devices_;
  MachineFileArguments measured_;
  std::vector<const MachineArguments*> machines_;
  std::map<std::string, std::function<int()>> runs_;
};

int run(int argc, char** argv) {
  CLI::App app("Omnivore trains deep networks on all processors of a machine, through StarPU.",
               "omni-run");
  app.set_version_flag(
      "--version", fmt::format("omni-run {} (StarPU {}, fmt {}.{})", kVersion, OMNI_STARPU_VERSION,
                               FMT_VERSION / 10000, FMT_VERSION / 100 % 100));
  app.option_defaults()->always_capture_default(false);

  use_grouped_help(app);

  TrainArguments train;
  if (const std::string task = slurm::array_task(); !task.empty())
    train.data.seed = std::strtoull(task.c_str(), nullptr, 10);
  add_options(app, table_of(train));
  Commands commands(app);
  SlurmArguments job;
  CLI::App& slurm_app =
      *app.add_subcommand("slurm", "The job script of a training for Slurm; takes its options, too")
           ->fallthrough();
  add_options(slurm_app, table_of(job));
  slurm_app.footer(
      "All options of a training are taken, too; behind -- also --gpus.\n"
      "Options of sbatch behind : are those of a further component: --nodes 1 : --nodes 4 --mem "
      "8G\n"
      "Other options of sbatch: sbatch [OPTIONS] FILE");
  EnsembleArguments ensemble;
  CLI::App& ensemble_app =
      *app.add_subcommand("ensemble",
                          "Train several nets, or seeds of one, which share their samples; takes "
                          "the options of a training, too")
           ->fallthrough();
  add_options(ensemble_app, table_of(ensemble));
  // Users of other programs type "train". The words that follow are read as without it.
  app.add_subcommand("train", "Trains, as without a subcommand")
      ->silent()
      ->fallthrough()
      ->set_help_flag();
  app.require_subcommand(0, 1);
  app.footer(kFooter);  // set last: subcommands made later would inherit it

  std::vector<std::string> words(argv, argv + argc);
  const bool writes_job = argc > 1 && words[1] == "slurm";
  const bool is_ensemble = argc > 1 && words[1] == "ensemble";
  if (writes_job) {
    auto components = take_components(words, job.options);
    if (!components) return finish(components.error());
    job.components = std::move(*components);
  }
  if (is_ensemble || writes_job) words = one_by_one(words);
  const auto end = writes_job ? std::ranges::find(words, "--") : words.end();
  std::vector<const char*> read;
  for (auto word = words.begin(); word != end; ++word) read.push_back(word->c_str());
  if (const auto code = read_command_line(app, static_cast<int>(read.size()), read.data()))
    return *code;
  if (commands.lists_schedulers() || train.machine.session.scheduler == "help") {
    log::result("{}\n", fmt::join(Session::schedulers(&omni_policy()), "\n"));
    return kSuccess;
  }
  if (const auto code = commands.run()) return *code;
  install_stop_signals("stopped; nothing was done yet that could be saved; to start again:\n  " +
                           for_shell(own_words()) + "\n",
                       exit_code(ErrorKind::interrupted));
  for (const auto& [name, is_late] : {std::pair("slurm", slurm_app && !writes_job),
                                      std::pair("ensemble", ensemble_app && !is_ensemble)})
    if (is_late)
      return finish(Error{ErrorKind::usage, argc > 1 ? words[1] : "",
                          fmt::format("stands before '{}'", name), "options come after it"});
  if (ensemble_app) return run_ensemble(words, ensemble);
  if (slurm_app)
    if (const auto code = read_training(words, job, train)) return *code;
  if (const Status prepared = prepare_ranks(train); !prepared) return finish(prepared);
  if (train.arrivals.simulated) train.machine.session.deterministic = true;
  if (slurm_app) return apply(train.common), finish(slurm_command(job, train));
  return run_command(train_command, train);
}

// Errors of GPUs have their own exit codes.
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

// Returns the value of --patience before the command line is read: ranks watch each other from
// their start on. A value that is not allowed is refused later.
double early_patience(int argc, char** argv) {
  constexpr std::string_view kOption = "--patience";
  double patience = TrainArguments().patience;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with(kOption)) continue;
    const bool in_word = word.substr(kOption.size()).starts_with('=');
    const char* value = in_word ? argv[i] + kOption.size() + 1 : i + 1 < argc ? argv[i + 1] : "";
    if (in_word || word == kOption)
      if (const double given = std::strtod(value, nullptr); given >= 1 && given <= 1e6)
        patience = given;
  }
  return patience;
}

// With --survive this process only keeps a rank: it starts another one, which trains. Returns the
// exit code; none: this process trains, or does something else.
std::optional<int> keep_survivor(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  const auto has = [&](const char* word) { return std::ranges::find(words, word) != words.end(); };
  const bool trains = argc > 1 && (argv[1][0] == '-' || words[1] == "train");
  if (!trains || !has("--survive") || ranks::is_kept() || has("--help") || has("--dry-run"))
    return std::nullopt;
  const auto folder = value_of("--out", words);
  const Result<int> code =
      folder ? ranks::keep_rank({.folder = *folder,
                                 .patience = early_patience(argc, argv),
                                 .lost_code = exit_code(ErrorKind::device),
                                 .stopped_code = exit_code(ErrorKind::interrupted),
                                 .usage_code = exit_code(ErrorKind::usage)})
             : Error{ErrorKind::usage, "--survive", "ranks find each other in the run folder",
                     "--out FOLDER, which all ranks see"};
  return code ? *code : finish(code.error());
}

[[gnu::used, gnu::section(".preinit_array")]] void (*const before_all_libraries)() = [] {
  listen_early(exit_code(ErrorKind::interrupted), exit_code(ErrorKind::failed));
};

}  // namespace
}  // namespace omni

int main(int argc, char** argv) {
  omni::end_in_order_on_exceptions();
  omni::end_in_order_without_memory();
  omni::make_writes_fail();
  if (const auto code = omni::keep_survivor(argc, argv)) return *code;
  if (omni::ranks::is_kept()) omni::ranks::end_with_keeper();
  // MPI installs a handler for SIGUSR1 first. Our handler calls it.
  if (const omni::Status joined =
          omni::ranks::start(omni::exit_code, omni::early_patience(argc, argv));
      !joined)
    return omni::finish(joined);
  omni::install_stop_signals("stopped\n", omni::exit_code(omni::ErrorKind::interrupted));
  if (omni::ranks::several()) omni::let_others_end();
  if (!omni::ranks::first()) omni::stop_without_words();
  const int code = omni::exit_code_of(omni::run_or_tell, argc, argv);
  omni::ranks::leave(code);
}
