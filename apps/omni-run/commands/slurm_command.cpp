// omni-run slurm: the job script that trains as this command line says, from a template.
#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/setup.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"

namespace omni {

Status slurm_command(const SlurmArguments& arguments, const NetArguments& net) {
  if (const auto known = read_net(net); !known) return known.error();  // rather now than in the job
  OMNI_TRY(const std::filesystem::path path, find_shipped(kShippedJobs, arguments.form));
  OMNI_TRY(const std::string form, read_file(path, 1 << 20));
  std::vector<std::string> words = own_words(), own{"--template"};
  if (words.size() < 2 || words[1] != "slurm")
    return Error{ErrorKind::usage, words.size() < 2 ? "" : words[1], "stands before 'slurm'",
                 "options come after it"};
  words.erase(words.begin(), words.begin() + 2);
  auto left = arguments.options;  // without a line in the template
  for (const auto& [option, value] : left) own.push_back(option);
  std::erase_if(left, [](const auto& each) { return each.second.empty(); });

  std::istringstream lines(form);
  std::string script;
  bool filled = false;
  for (std::string line; std::getline(lines, line); script += line + '\n') {
    if (line.starts_with("#SBATCH --")) {
      const auto given = left.find(line.substr(8, line.find('=') - 8));
      if (given == left.end()) continue;
      line = fmt::format("#SBATCH {}={}", given->first, given->second);
      left.erase(given);
    } else if (const auto usage = line.find(": sbatch ");
               line.starts_with("# ") && usage != line.npos) {
      line.replace(usage, line.npos, ". Written by omni-run slurm: sbatch FILE [more options]");
    } else if (line == "set -euo pipefail") {
      for (const auto& [option, value] : left)
        script += fmt::format("#SBATCH {}={}\n", option, value);
      const auto root = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
      line += fmt::format("\nPATH={}:$PATH\nset -- {} \"$@\"", for_shell({root / "bin"}),
                          for_shell(words_without(own, words)));
      filled = true;
    }
  }
  if (!filled)
    return Error{ErrorKind::data, path.string(), "has no line 'set -euo pipefail'",
                 "the program and its arguments are added after it"};
  log::result_text(script);
  return {};
}

}  // namespace omni
