#include "apps/omni-run/slurm/job_template.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "apps/omni-run/setup.hpp"
#include "runtime/files.hpp"
#include "runtime/own_command.hpp"

namespace omni {
namespace {

constexpr std::string_view kOption = "#SBATCH --", kBody = "set -euo pipefail";

// "--nodes" of "#SBATCH --nodes=2", or of "#SBATCH --nodes 2"; "": it is no such line.
std::string option_in(std::string_view line) {
  if (!line.starts_with(kOption)) return "";
  line.remove_prefix(kOption.size() - 2);
  return std::string(line.substr(0, line.find_first_of("= ")));
}

std::string value_in(std::string_view line) {
  const std::size_t end = line.find_first_of("= ", kOption.size());
  return end == line.npos ? "" : std::string(line.substr(end + 1));
}

// What stands between `omni-run` and the words that follow the script, on whatever lines.
void find_training(JobTemplate& form) {
  std::string text;
  for (const std::string& line : form.lines) {
    if (line.starts_with('#')) continue;
    form.several_ranks |= line.find("--mpi=pm") != line.npos || line.starts_with("mpiexec ");
    text += line.ends_with('\\') ? line.substr(0, line.size() - 1) : line + '\n';
  }
  std::istringstream commands(text);
  for (std::string command; std::getline(commands, command);) {
    const std::size_t begin = command.find("omni-run "), end = command.find("\"$@\"");
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
    if (const std::string option = option_in(line); !option.empty())
      form.options[option] = value_in(line);
  if (std::ranges::find(form.lines, kBody) == form.lines.end())
    return Error{ErrorKind::data, form.path.string(), fmt::format("has no line '{}'", kBody),
                 "the program and its arguments are added after it"};
  find_training(form);
  return form;
}

std::string fill_in(const JobTemplate& form, SbatchOptions options,
                    const std::vector<std::string>& words) {
  std::string script;
  const auto add_option = [&](const std::string& name, const std::string& value) {
    script += fmt::format("#SBATCH {}{}{}\n", name, value.empty() ? "" : "=", value);
  };
  for (const std::string& line : form.lines) {
    if (const std::string option = option_in(line); !option.empty()) {
      if (const auto given = options.extract(option)) add_option(given.key(), given.mapped());
    } else if (const auto usage = line.find(": sbatch ");
               line.starts_with("# ") && usage != line.npos) {
      script += line.substr(0, usage) + ". Written by omni-run slurm: sbatch FILE [more options]\n";
    } else if (line == kBody) {
      for (const auto& [name, value] : options) add_option(name, value);
      const auto root = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
      script += fmt::format("{}\nPATH={}:$PATH\nset -- {} \"$@\"\n", kBody,
                            for_shell({root / "bin"}), for_shell(words));
    } else {
      script += line + '\n';
    }
  }
  return script;
}

}  // namespace omni
