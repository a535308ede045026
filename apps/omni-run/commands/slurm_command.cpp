// omni-run slurm writes a job script for a training, from a template.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/slurm/job_check.hpp"
#include "apps/omni-run/slurm/job_template.hpp"
#include "apps/omni-run/slurm/sbatch_options.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/own_command.hpp"

namespace omni {
namespace {

constexpr const char *kGpus = "--gpus", *kGpusPerNode = "--gpus-per-node", *kGres = "--gres";

bool has(const std::vector<std::string>& options, std::string_view option) {
  return std::ranges::find(options, option) != options.end();
}

std::string value_of(const SbatchOptions& options, const char* option, const char* otherwise) {
  const auto found = options.find(option);
  return found == options.end() ? otherwise : found->second;
}

NodeRange nodes_of_job(const SbatchOptions& options) {
  return node_range(value_of(options, "--nodes", "1")).value_or(NodeRange{});
}

// All ranks use equally many GPUs, so a number for the whole job is divided by the nodes.
Status divide_gpus(SbatchOptions& options) {
  const auto gpus = options.find(kGpus);
  if (gpus == options.end()) return {};
  const NodeRange nodes = nodes_of_job(options);
  const std::string where = fmt::format("{} {}", kGpus, gpus->second);
  if (nodes.least != nodes.most)
    return Error{ErrorKind::usage, where, "the number of nodes that share them is not known",
                 "--gpus-per-node 1, say"};
  const auto each = gpus_divided(gpus->second, nodes.least);
  if (!each)
    return Error{ErrorKind::usage, where,
                 fmt::format("{} nodes cannot have equally many of them", nodes.least),
                 "--gpus-per-node 1, say"};
  options.erase(gpus);
  options[kGpusPerNode] = *each;
  return {};
}

// Names the logs of an array's tasks by array and task, not by the job number of each task.
void name_tasks(SbatchOptions& options) {
  if (!options.contains("--array")) return;
  for (const char* option : {"--output", "--error"}) {
    const auto log = options.find(option);
    if (log == options.end() || log->second.find("%a") != std::string::npos) continue;
    if (const std::size_t at = log->second.find("%j"); at != std::string::npos)
      log->second.replace(at, 2, "%A_%a");
  }
}

// Returns the template's options, replaced by those of the command line.
Result<SbatchOptions> options_of_job(const JobTemplate& form, const SbatchOptions& given) {
  SbatchOptions options = form.options;
  const auto asks = [&](const char* option) {
    const std::string value = value_of(given, option, "");
    return !value.empty() && (option != kGres || gpus_of_gres(value) > 0);
  };
  const int ways = asks(kGpus) + asks(kGpusPerNode) + asks(kGres);
  if (ways > 1)
    return Error{ErrorKind::usage, asks(kGpus) ? kGpus : kGpusPerNode,
                 "the GPUs of the job are asked for twice",
                 "give one of --gpus, --gpus-per-node and --gres"};
  if (ways == 1) {
    for (const char* each : {kGpus, kGpusPerNode}) options.erase(each);
    if (gpus_of_gres(value_of(options, kGres, "")) > 0) options.erase(kGres);
  }
  for (const auto& [option, value] : given) options[option] = value;
  OMNI_CHECK(divide_gpus(options));
  name_tasks(options);
  return options;
}

int gpus_of_node(const SbatchOptions& options) {
  int gpus = gpus_of_gres(value_of(options, kGres, ""));
  for (const int each :
       numbers_of_gpus(value_of(options, kGpusPerNode, "")).value_or(std::vector<int>{}))
    gpus += each;
  return gpus;
}

// Warns of a limit below ten minutes: a user who writes 2:00 may mean hours, but Slurm reads
// minutes. Returns an error if the template's signal before the end would come at once.
Status check_time(const JobTemplate& form, const SbatchOptions& options) {
  const std::string time = value_of(options, "--time", "UNLIMITED"),
                    signal = value_of(options, "--signal", "");
  const std::int64_t seconds = seconds_of_limit(time).value_or(0), kShort = 600;
  if (seconds == 0 || seconds >= kShort) return {};
  const auto colons = std::ranges::count(time, ':');
  std::string meant =
      fmt::format("{} is {} minute{}", time, seconds / 60, seconds == 60 ? "" : "s");
  if (colons < 2 && time.find('-') == time.npos) {
    const std::string hours = time + (colons == 0 ? ":00:00" : ":00");
    const std::int64_t longer = seconds_of_limit(hours).value_or(0);
    meant += fmt::format("; {} is {:.3g} hour{}", hours, static_cast<double>(longer) / 3600,
                         longer == 3600 ? "" : "s");
  }
  const std::size_t at = signal.find('@');
  const std::int64_t before =
      signal.empty()
          ? 0
          : number_in<int>(signal.substr(std::min(at, signal.size() - 1) + 1)).value_or(60);
  if (seconds > before) {
    log::warn("--time {}", meant);
    return {};
  }
  return Error{ErrorKind::usage, "--time " + time,
               fmt::format("the template {} has its training stopped {} s before the end: at once",
                           form.name(), before),
               meant};
}

// Returns the options of the further components of a heterogeneous job. They are alike in what the
// whole job has, and come to the queues of the first one unless they say otherwise.
Result<std::vector<SbatchOptions>> components_of_job(const JobTemplate& form,
                                                     const SbatchOptions& first,
                                                     const SlurmArguments& arguments) {
  std::vector<SbatchOptions> components;
  if (arguments.components.empty()) return components;
  if (!form.takes_components)
    return Error{
        ErrorKind::usage, ":",
        fmt::format("the template {} does not start ranks on all components of a job", form.name()),
        "--template nodes, or srun --het-group in your own"};
  if (first.contains("--array"))
    return Error{ErrorKind::usage, ":", "Slurm has no arrays of heterogeneous jobs",
                 "leave out --array and --sweep, or the components"};
  for (const SbatchOptions& given : arguments.components) {
    OMNI_CHECK(check_grammar(given));
    for (const char* option : {"--time", "--array", "--job-name"})
      if (given.contains(option))
        return Error{ErrorKind::usage, option, "belongs to all components of the job",
                     "write it before the first :"};
    SbatchOptions& own = components.emplace_back(SbatchOptions{{"--nodes", "1"}});
    for (const char* option : {"--ntasks-per-node", "--exclusive", "--time", "--signal",
                               "--requeue", "--no-kill", "--partition", "--account", "--qos"})
      if (const auto same = first.find(option); same != first.end()) own.insert(*same);
    for (const auto& [option, value] : given) own[option] = value;
    OMNI_CHECK(divide_gpus(own));
    if (gpus_of_node(own) != gpus_of_node(first))
      return Error{ErrorKind::usage, ":",
                   fmt::format("nodes of the components have {} and {} GPUs, ranks need equally "
                               "many",
                               gpus_of_node(first), gpus_of_node(own)),
                   "--gpus-per-node 1 for each component, say"};
  }
  return components;
}

// Returns a setting for each task of the array that --sweep makes.
Result<std::vector<SweepMember>> settings_of_job(const JobTemplate& form, SbatchOptions& options,
                                                 const SlurmArguments& arguments,
                                                 const TrainArguments& training) {
  if (arguments.sweep.empty()) return std::vector<SweepMember>();
  TrainArguments any;
  OMNI_TRY(const SweepSpec sweep, parse_sweep(arguments.sweep, table_of(any)));
  if (sweep.wave > 0)
    return Error{ErrorKind::usage, "--sweep tpe",
                 "results decide which settings come next, but tasks of an array begin together",
                 "random:20, say, or omni-run ensemble"};
  for (const SweepAxis& axis : sweep.axes)
    if (form.gives(axis.option))
      return Error{ErrorKind::usage, "--sweep " + axis.key,
                   fmt::format("the template {} gives it itself", form.name()),
                   "--template requeue, say"};
  OMNI_TRY(auto settings, sweep_members(sweep, training.data.seed_of_net()));
  const auto array = options.find("--array");
  const bool asked =
      arguments.options.contains("--array") && !arguments.options.at("--array").empty();
  if (!asked)
    options["--array"] = fmt::format("0-{}", settings.size() - 1);
  else if (last_task(array->second) >= settings.size())
    return Error{ErrorKind::usage, "--array " + array->second,
                 fmt::format("the sweep has {} settings, from 0 on", settings.size()),
                 "leave it out, or name some of them"};
  name_tasks(options);
  return settings;
}

// Returns the words of the training of a task: without those for which the setting has others.
Result<std::vector<std::string>> words_of(const SweepMember& setting,
                                          const std::vector<std::string>& words) {
  TrainArguments own;
  GivenOptions given;
  if (read_options(table_of(own), setting.words, given))
    return Error{ErrorKind::usage, "--sweep", setting.name + " is refused", "choose other values"};
  return words_without(given.once, words);
}

// Returns a name for the script's trainings, for messages; "": there is only one.
std::string trainings_of(const JobTemplate& form, const SbatchOptions& options) {
  if (tasks_of_array(value_of(options, "--array", "")).value_or(1) > 1) return "tasks of the array";
  return !form.several_ranks && nodes_of_job(options).most > 1 ? "trainings of the job" : "";
}

// Refuses a --resume with which a requeued job would begin again after each stop.
Status check_restarts(const JobTemplate& form, const SbatchOptions& options,
                      const SlurmArguments& arguments, const std::string& resume) {
  if (!form.requeues || resume == "auto" || !has(arguments.given.all, "--resume")) return {};
  std::string todo = "leave it out: a new job has a new run folder";
  if (resume != "none")
    todo = trainings_of(form, options).empty()
               ? fmt::format("--out {} in its place goes on there", for_shell({resume}))
               : "copy the template, without its requeues";
  return Error{ErrorKind::usage, "--resume " + resume,
               fmt::format("the template {} requeues its job, which must go on with --resume auto",
                           form.name()),
               std::move(todo)};
}

// Refuses options that do not suit the template, such as those that the template gives itself.
Status check_template(const JobTemplate& form, const SbatchOptions& options,
                      const SlurmArguments& arguments) {
  const int nodes = nodes_of_job(options).most;
  const std::string name = form.name();
  if (!form.several_ranks && nodes > 1 && value_of(form.options, "--nodes", "") == "1")
    return Error{ErrorKind::usage, "--nodes " + value_of(options, "--nodes", ""),
                 fmt::format("the template {} trains on one node", name), "--template nodes"};
  for (const std::string& option : arguments.given.once)
    if (form.gives(option))
      return Error{ErrorKind::usage, option, fmt::format("the template {} gives it itself", name),
                   "leave it out, or copy the template and change that"};
  const std::string trainings = trainings_of(form, options);
  for (const char* option : {"--out", "--metrics", "--save-weights", "--trace"})
    if (!trainings.empty() && has(arguments.given.all, option) &&
        !(form.takes_traces && option == std::string_view("--trace")))
      return Error{
          ErrorKind::usage, option, fmt::format("all {} would write the same", trainings),
          form.gives(option) ? "leave it out: the template names one for each" : "leave it out"};
  if (trainings.starts_with("tasks") && has(arguments.given.all, "--seed") &&
      arguments.sweep.empty())
    log::warn("--seed: all tasks of the array train alike; without it each has its own");
  return {};
}

}  // namespace

namespace {

struct Ranks {
  int least = 0, most = 0;
};

Ranks ranks_of(const JobTemplate& form, const SbatchOptions& options,
               const std::vector<SbatchOptions>& components) {
  if (!form.several_ranks) return {1, 1};
  Ranks ranks;
  const auto add = [&](const SbatchOptions& own) {
    const NodeRange nodes = nodes_of_job(own);
    const int tasks =
        node_range(value_of(own, "--ntasks-per-node", "1")).value_or(NodeRange{}).least;
    ranks.least += nodes.least * tasks;
    ranks.most += nodes.most * tasks;
  };
  add(options);
  for (const SbatchOptions& each : components) add(each);
  return ranks;
}

// Checks the training for the smallest and the largest number of ranks.
Status check_training(const TrainArguments& training, ExpectedJob job, const Ranks& ranks) {
  job.ranks = ranks.least;
  OMNI_CHECK(check_for_job(training, job));
  if (ranks.most == ranks.least) return {};
  const log::Capture said_before;
  job.ranks = ranks.most;
  return check_for_job(training, job);
}

// Checks the training of each task of a sweep. `words` are those of the command line.
Status check_settings(const std::vector<SweepMember>& settings,
                      const std::vector<std::string>& words, const TrainArguments& as_there,
                      const ExpectedJob& job, const Ranks& ranks) {
  for (const SweepMember& setting : settings) {
    const log::Name name("--sweep " + setting.name);
    OMNI_TRY(std::vector<std::string> own, words_of(setting, words));
    own.insert(own.end(), setting.words.begin(), setting.words.end());
    TrainArguments training;
    GivenOptions given;
    if (read_options(table_of(training), own, given))
      return Error{ErrorKind::usage, "--sweep", setting.name + " is refused",
                   "choose other values"};
    training.resume = as_there.resume;
    std::optional<log::Capture> said_before;
    if (&setting != &settings.front()) said_before.emplace();
    OMNI_CHECK(prepare_ranks(training));
    if (training.arrivals.simulated) training.machine.session.deterministic = true;
    OMNI_CHECK(check_training(training, job, ranks));
  }
  return {};
}

}  // namespace

Status slurm_command(const SlurmArguments& arguments, const TrainArguments& training) {
  SbatchOptions given = arguments.options;
  std::erase_if(given, [](const auto& each) { return each.second.empty(); });
  OMNI_CHECK(check_grammar(given));
  const bool several = given.contains("--nodes") || !arguments.components.empty();
  const std::string usual = several ? "nodes" : "requeue";
  OMNI_TRY(const JobTemplate form, read_template(arguments.form.empty() ? usual : arguments.form));
  OMNI_TRY(SbatchOptions options, options_of_job(form, given));
  if (!arguments.components.empty() && !given.contains("--nodes")) options["--nodes"] = "1";
  if (training.survive) options.emplace("--no-kill", "");
  OMNI_TRY(const auto settings, settings_of_job(form, options, arguments, training));
  OMNI_TRY(const auto components, components_of_job(form, options, arguments));
  OMNI_CHECK(check_template(form, options, arguments));
  OMNI_CHECK(check_time(form, options));

  TrainArguments as_there = training;
  if (form.gives("--resume") && !has(arguments.given.all, "--resume")) as_there.resume = "auto";
  const ExpectedJob job{
      .gpus = gpus_of_node(options),
      .seconds = seconds_of_limit(value_of(options, "--time", "UNLIMITED")).value_or(0)};
  const Ranks ranks = ranks_of(form, options, components);
  OMNI_CHECK(settings.empty() ? check_training(as_there, job, ranks)
                              : check_settings(settings, arguments.words, as_there, job, ranks));
  OMNI_CHECK(check_restarts(form, options, arguments, training.resume));
  std::error_code problem;
  const std::filesystem::path folder = std::filesystem::current_path(problem);
  if (problem)
    return Error{ErrorKind::usage, "this folder", "cannot be read: " + problem.message(),
                 "go to the folder in which the job shall start"};
  const bool are_several = !trainings_of(form, options).empty();
  auto words = are_several ? words_without({"--trace"}, arguments.words) : arguments.words;
  if (!settings.empty()) {
    OMNI_TRY(words, words_of(settings.front(), words));
    // All tasks train from one seed, as the members of a sweep in an ensemble do.
    const bool is_swept = std::ranges::any_of(
        settings.front().words, [](const auto& word) { return word.starts_with("--seed="); });
    const bool seeded = has(arguments.given.all, "--seed") || form.gives("--seed") || is_swept;
    if (!seeded) words.insert(words.end(), {"--seed", "1"});
  }
  log::result_text(fill_in(form, {.options = options,
                                  .components = components,
                                  .words = words,
                                  .folder = folder,
                                  .traces = are_several ? training.trace : "",
                                  .settings = settings}));
  return {};
}

}  // namespace omni
