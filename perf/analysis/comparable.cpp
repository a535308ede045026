#include "perf/analysis/comparable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "runtime/own_command.hpp"
#include "runtime/shown_name.hpp"

namespace omni::perf {
namespace {

double weight_of(const Task& task) {
  return task.flops > 0 ? task.flops : task.bytes > 0 ? task.bytes : 1;
}

// Returns whether an option only changes where a run writes, or what it prints.
bool is_of_no_matter(const std::string& option) {
  static const std::set<std::string> kOptions = {"--trace", "--metrics", "--out", "--save-weights",
                                                 "--json",  "--quiet",   "-q"};
  return kOptions.contains(option);
}

bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

// Returns the options of a command by name; flags have empty values. The words between the program
// and the first option have the name "".
std::map<std::string, std::string> options_of(const std::string& command) {
  std::map<std::string, std::string> options;
  const std::vector<std::string> words = from_shell(command);
  std::string name;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (is_option(words[i])) {
      name = words[i].substr(0, equals);
      options[name] = equals == std::string::npos ? "" : words[i].substr(equals + 1);
    } else {
      options[name] += (options[name].empty() ? "" : " ") + words[i];
    }
  }
  return options;
}

std::set<std::string> workers_of(const Trace& trace) {
  std::set<std::string> names;
  for (const Worker& worker : trace.workers) names.insert(worker.name);
  return names;
}

}  // namespace

ImagesOfTasks::ImagesOfTasks(const Trace& trace, std::int64_t counted_from)
    : batch_(trace.headers[0].batch) {
  std::set<std::int64_t> iterations;
  std::map<Key, Class> trained;
  for (const Task& task : trace.tasks) {
    const bool counts = task.iteration >= counted_from;
    if (counts) iterations.insert(task.iteration);
    if (task.slice < 0 || task.layer < 0) continue;
    for (auto* classes : {&classes_, counts ? &trained : nullptr}) {
      if (classes == nullptr) continue;
      Class& which = (*classes)[{task.codelet, task.layer}];
      which.weight += weight_of(task);
      ++which.tasks;
      which.slices = std::max(which.slices, task.slice + 1);
    }
  }
  const auto passes = static_cast<double>(iterations.size());
  for (auto& [key, found] : classes_) {
    const auto in_training = trained.find(key);
    if (in_training != trained.end() && passes > 0) {
      found.per_weight = batch_ * passes / in_training->second.weight;
      slices_ = std::max(slices_, static_cast<double>(in_training->second.tasks) / passes);
      continue;
    }
    // A trace does not say how often evaluations run the net, so slices are counted by their
    // numbers.
    const double own = batch_ / static_cast<double>(trace.headers.size() * found.slices);
    found.per_weight = own * static_cast<double>(found.tasks) / found.weight;
    if (trained.empty())
      slices_ = std::max(
          slices_, static_cast<double>(found.slices) * static_cast<double>(trace.headers.size()));
  }
}

double ImagesOfTasks::of(const Task& task) const {
  const auto found = classes_.find({task.codelet, task.layer});
  return task.slice < 0 || found == classes_.end() ? 0 : weight_of(task) * found->second.per_weight;
}

bool same_slices(const ImagesOfTasks& one, const ImagesOfTasks& other) {
  constexpr double kAlike = 0.02;  // relative; a run may end within an iteration
  if (one.slices() == 0 || other.slices() == 0) return true;  // without slices no task has images
  const double ratio = one.batch() / one.slices() / (other.batch() / other.slices());
  return std::abs(ratio - 1) < kAlike;
}

std::vector<std::string> differences_of_runs(const Trace& before, const Trace& after) {
  std::vector<std::string> differences;
  const trace::Header &a = before.headers[0], &b = after.headers[0];
  const auto differ = [&](const std::string& what, const auto& one, const auto& other) {
    if (one != other)
      differences.push_back(fmt::format("different {}: {} and {}", what, one, other));
  };
  differ("batch", a.batch, b.batch);
  differ("scheduler", shown_name(a.scheduler), shown_name(b.scheduler));
  differ("host", shown_name(a.host), shown_name(b.host));
  differ("number of ranks", before.headers.size(), after.headers.size());
  if (workers_of(before) != workers_of(after)) differences.emplace_back("different workers");
  const auto options = options_of(a.command), others = options_of(b.command);
  std::set<std::string> names;
  for (const auto* each : {&options, &others})
    for (const auto& [name, value] : *each)
      if (!is_of_no_matter(name)) names.insert(name);
  for (const std::string& name : names) {
    const auto value = [&](const auto& given) -> std::string {
      const auto found = given.find(name);
      if (found == given.end()) return "none";
      return found->second.empty() ? "given" : shown_name(found->second);
    };
    differ(name.empty() ? "command" : one_line(name), value(options), value(others));
  }
  return differences;
}

}  // namespace omni::perf
