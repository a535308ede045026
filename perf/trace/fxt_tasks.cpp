#include "perf/trace/fxt_tasks.hpp"
#include "runtime/line_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace omni::perf {
namespace {

constexpr double kLongestRun = 1e11;     // ms; three years
constexpr std::size_t kLongestId = 200;  // is part of names in traces, which have a longest, too
constexpr std::int64_t kMaxSmallNumber = 1 << 20;

template <class T>
bool parse(std::string_view text, T& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size();
}

// A mode may be empty, between two spaces.
std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> result;
  while (true) {
    const std::size_t end = std::min(text.find(' '), text.size());
    result.emplace_back(text.substr(0, end));
    if (end == text.size()) return result;
    text.remove_prefix(end + 1);
  }
}

// What is wrong with the value, or nothing.
std::string set(FxtTask& task, std::string_view key, std::string_view value) {
  const auto time = [&](double& target) {
    if (!parse(value, target) || !(target >= 0 && target <= kLongestRun)) return "is no time";
    return "";
  };
  const auto whole = [&](std::int64_t& target) {
    return parse(value, target) && target >= 0 && target < kMaxSmallNumber ? ""
                                                                           : "is no small number";
  };
  if (key == "JobId" || key == "Handles")
    for (const std::string& word : words(value))
      if (word.size() > kLongestId) return "holds no id";
  if (key == "JobId") task.id = value;
  if (key == "Control") task.control = true;
  if (key == "Name") task.name = value.substr(0, 200);
  if (key == "DependsOn") task.depends_on = words(value);
  if (key == "Handles") task.handles = words(value);
  if (key == "Modes") task.modes = words(value);
  if (key == "SubmitTime") return time(task.submitted);
  if (key == "StartTime") return time(task.start);
  if (key == "EndTime") return time(task.end);
  if (key == "WorkerId") return whole(task.worker);
  if (key == "MemoryNode") return whole(task.node);
  if (key == "MPIRank") return value == "-1" ? "" : whole(task.rank);
  if (key == "Iteration") {
    const auto numbers = words(value);
    if (numbers.empty() || !parse(numbers[0], task.iteration) || task.iteration < 0)
      return "is no iteration";
  }
  if (key == "GFlop" &&
      (!parse(value, task.gigaflops) || !(task.gigaflops >= 0 && task.gigaflops <= 1e12)))
    return "is no number of operations";
  if (key == "Sizes")
    for (const std::string& word : words(value))
      if (!parse(word, task.sizes.emplace_back())) return "is no list of sizes";
  return "";
}

// What is wrong with a whole record, or nothing.
std::string finish(FxtTask&& task, FxtTasks& tasks) {
  if (task.id.empty() || task.control) return "";
  if (task.worker < 0 || task.start < 0 || task.end < 0) {
    ++tasks.left_out;
    return "";
  }
  if (task.submitted < 0) task.submitted = task.start;  // by StarPU itself
  if (task.submitted > task.start || task.start > task.end) return "goes back in time";
  if (task.handles.size() != task.modes.size())
    return "has another number of modes than of handles";
  tasks.by_rank[task.rank].push_back(std::move(task));
  return "";
}

}  // namespace

Result<FxtTasks> read_fxt_tasks(const std::filesystem::path& path) {
  OMNI_TRY(LineSource lines, open_lines(path));
  FxtTasks tasks;
  FxtTask task;
  std::size_t number = 0;
  const auto problem = [&](std::string what) {
    return Error{ErrorKind::data, fmt::format("{}:{}", path.string(), number), std::move(what),
                 "is it a tasks.rec of starpu_fxt_tool?"};
  };
  while (true) {
    OMNI_TRY(const std::optional<LineSource::Line> line, lines.next());
    if (!line) break;
    ++number;
    if (line->too_long) return problem("the line is too long");
    if (!line->ended) return problem("the line is cut off");
    if (line->text.empty()) {
      if (std::string what = finish(std::exchange(task, {}), tasks); !what.empty())
        return problem("the task before this line " + what);
      continue;
    }
    const std::size_t colon = line->text.find(':');
    if (colon == line->text.npos || colon == 0) return problem("is no 'Key: value'");
    const std::string_view key = line->text.substr(0, colon);
    std::string_view value = line->text.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (std::string what = set(task, key, value); !what.empty())
      return problem(fmt::format("{} {}", key, what));
  }
  if (!task.id.empty()) return problem("the last task is cut off");
  if (tasks.by_rank.empty()) return problem("holds no task that ran");
  return tasks;
}

}  // namespace omni::perf
