#include "apps/omni-run/slurm/job_template.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "apps/omni-run/setup.hpp"
#include "runtime/files.hpp"
#include "runtime/own_command.hpp"

namespace omni {
namespace {

constexpr std::string_view kOption = "#SBATCH", kBody = "set -euo pipefail", kWords = "\"$@\"",
                           kTraces = "OMNI_TRACES", kComponents = "--het-group";

constexpr const char* kChdir = "--chdir";

// A template may have these short names of sbatch's options.
constexpr std::pair<char, const char*> kShort[] = {
    {'A', "--account"},  {'C', "--constraint"}, {'D', "--chdir"},     {'G', "--gpus"},
    {'J', "--job-name"}, {'N', "--nodes"},      {'a', "--array"},     {'c', "--cpus-per-task"},
    {'e', "--error"},    {'o', "--output"},     {'p', "--partition"}, {'q', "--qos"},
    {'t', "--time"}};

std::string_view without_blanks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

// Returns {"--nodes", "2"} for "#SBATCH --nodes=2", "#SBATCH --nodes 2" or "#SBATCH -N 2"; {} for
// other lines.
std::pair<std::string, std::string> option_in(std::string_view line) {
  if (!line.starts_with(kOption)) return {};
  line = without_blanks(line.substr(kOption.size()));
  if (line.starts_with("--")) {
    const std::size_t end = std::min(line.find_first_of("= \t"), line.size());
    const bool equals = end < line.size() && line[end] == '=';
    const std::string_view value = line.substr(end + (equals ? 1 : 0));
    return {std::string(line.substr(0, end)), std::string(equals ? value : without_blanks(value))};
  }
  for (const auto& [letter, option] : kShort)
    if (line.size() > 1 && line[0] == '-' && line[1] == letter)
      return {option, std::string(without_blanks(line.substr(2)))};
  return {};
}

// Finds out what the template's commands do, and which options stand between `omni-run` and the
// place for the training's words, on one line or several.
void find_training(JobTemplate& form) {
  std::string text;
  for (const std::string& line : form.lines) {
    if (line.starts_with('#')) continue;
    form.requeues |= line.find("scontrol requeue") != line.npos;
    form.takes_words |= line.find(kWords) != line.npos;
    form.takes_traces |= line.find(kTraces) != line.npos;
    form.takes_components |= line.find(kComponents) != line.npos;
    form.several_ranks |= line.find("--mpi=pm") != line.npos || line.starts_with("mpiexec ");
    text += line.ends_with('\\') ? line.substr(0, line.size() - 1) : line + '\n';
  }
  std::istringstream commands(text);
  for (std::string command; std::getline(commands, command);) {
    const std::size_t begin = command.find("omni-run "), end = command.find(kWords);
    if (begin == command.npos || end == command.npos || end < begin) continue;
    std::istringstream words(command.substr(begin, end - begin));
    for (std::string word; words >> word;)
      if (word.starts_with("--")) form.training.push_back(word.substr(0, word.find('=')));
  }
}

}  // namespace

bool JobTemplate::gives(const std::string& option) const {
  return std::ranges::find(training, option) != training.end();
}

Result<JobTemplate> read_template(const std::string& name) {
  JobTemplate form;
  OMNI_TRY(form.path, find_shipped(kShippedJobs, name));
  OMNI_TRY(const std::string text, read_file(form.path, 1 << 20));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line); form.lines.push_back(line))
    if (const auto [option, value] = option_in(line); !option.empty()) form.options[option] = value;
  if (std::ranges::find(form.lines, kBody) == form.lines.end())
    return Error{ErrorKind::data, form.path.string(), fmt::format("has no line '{}'", kBody),
                 "the program and its arguments are added after it"};
  find_training(form);
  form.requeues |= form.options.contains("--requeue");
  if (!form.takes_words)
    return Error{ErrorKind::data, form.path.string(), fmt::format("has no {}", kWords),
                 "as in omni-run \"$@\": there the training's options come"};
  return form;
}

namespace {

// Returns the lines of the script that choose the setting of a task by its number.
std::string choice_of(const std::vector<SweepMember>& settings) {
  std::string lines = "case ${SLURM_ARRAY_TASK_ID:-} in\n";
  for (std::size_t task = 0; task < settings.size(); ++task)
    lines += fmt::format("  {}) setting=({}) ;;\n", task, for_shell(settings[task].words));
  lines += fmt::format(
      "  *) echo \"the sweep has no setting ${{SLURM_ARRAY_TASK_ID:-}}, they are 0 to {}\" >&2; "
      "exit "
      "2 ;;\nesac\necho \"setting $SLURM_ARRAY_TASK_ID of the sweep: ${{setting[*]}}\"\n",
      settings.size() - 1);
  return lines;
}

}  // namespace

std::string fill_in(const JobTemplate& form, FilledJob job) {
  std::string script, start;
  SbatchOptions& options = job.options;
  if (!options.contains(kChdir)) {
    if (const auto quoted = for_sbatch_line(job.folder))
      options[kChdir] = *quoted;
    else
      start = fmt::format("cd {}\n", for_shell({job.folder}));
  }
  if (!job.traces.empty()) start += fmt::format("{}={}\n", kTraces, for_shell({job.traces}));
  if (!job.settings.empty()) start += choice_of(job.settings);
  const auto add_option = [&](const std::string& name, const std::string& value) {
    script += fmt::format("#SBATCH {}{}{}\n", name, value.empty() ? "" : "=", value);
  };
  for (const std::string& line : form.lines) {
    if (const std::string option = option_in(line).first; !option.empty()) {
      if (const auto given = options.extract(option)) add_option(given.key(), given.mapped());
    } else if (const auto usage = line.find(": sbatch ");
               line.starts_with("# ") && usage != line.npos) {
      script += line.substr(0, usage) + ". Written by omni-run slurm: sbatch FILE [more options]\n";
    } else if (line == kBody) {
      for (const auto& [name, value] : options) add_option(name, value);
      for (const SbatchOptions& component : job.components) {
        script += "#SBATCH hetjob\n";
        for (const auto& [name, value] : component) add_option(name, value);
      }
      const auto root = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
      script += fmt::format("{}\n{}PATH={}:$PATH\nset -- {} {}\"$@\"\n", kBody, start,
                            for_shell({root / "bin"}), for_shell(job.words),
                            job.settings.empty() ? "" : "\"${setting[@]}\" ");
    } else {
      script += line + '\n';
    }
  }
  return script;
}

}  // namespace omni
