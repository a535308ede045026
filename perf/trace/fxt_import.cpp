#include "perf/trace/fxt_import.hpp"

#include <fmt/format.h>
#include <system_error>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "runtime/files.hpp"
#include "runtime/number_in.hpp"
#include "runtime/trace/records.hpp"

namespace omni::perf {
namespace {

// An FxtTask is a task in tasks.rec of starpu_fxt_tool. The file has lines "Key: value", and an
// empty line after every task.
struct FxtTask {
  std::string id, name;  // with several ranks, ids begin with the rank
  bool control = false;  // true: no task, but a hint to StarPU
  std::vector<std::string> depends_on;
  std::vector<std::string> handles,
      modes;  // both have the same size; modes are "R", "RW", "RWC", "S" ...
  std::vector<std::uint64_t> sizes;
  double submitted = -1, start = -1, end = -1;  // ms
  double gigaflops = 0;
  std::int64_t worker = -1, node = 0, rank = 0, iteration = -1;
};

struct FxtTasks {
  std::map<std::int64_t, std::vector<FxtTask>> by_rank;  // the tasks that a worker ran
  std::size_t left_out = 0;                              // number of other tasks
};

constexpr double kLongestRun = 1e11;     // ms; three years
constexpr std::size_t kLongestId = 200;  // ids are parts of names, which are bounded
constexpr std::int64_t kMaxSmallNumber = 1 << 20;

template <class T>
bool parse(std::string_view text, T& number) {
  const auto found = number_in<T>(text);
  number = found.value_or(number);
  return found.has_value();
}

// Splits a text at its spaces. A word may be empty, as some access modes are.
std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> result;
  while (true) {
    const std::size_t end = std::min(text.find(' '), text.size());
    result.emplace_back(text.substr(0, end));
    if (end == text.size()) return result;
    text.remove_prefix(end + 1);
  }
}

// Returns what is wrong with the value; "": nothing.
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

// Adds the task. Returns what is wrong with the whole record; "": nothing.
std::string finish(FxtTask&& task, FxtTasks& tasks) {
  if (task.id.empty() || task.control) return "";
  if (task.worker < 0 || task.start < 0 || task.end < 0) {
    ++tasks.left_out;
    return "";
  }
  if (task.submitted < 0) task.submitted = task.start;  // StarPU submitted it itself
  if (task.submitted > task.start || task.start > task.end) return "goes back in time";
  if (task.handles.size() != task.modes.size())
    return "has another number of modes than of handles";
  tasks.by_rank[task.rank].push_back(std::move(task));
  return "";
}

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

namespace fs = std::filesystem;
using trace::AccessMode, trace::Nanoseconds;

constexpr std::uint64_t kMostBytes = 1'000'000'000'000'000'000;

bool is_commuting(std::string_view mode) { return mode.find_first_of("CX") != mode.npos; }

AccessMode mode_of(std::string_view mode) {
  if (is_commuting(mode)) return AccessMode::add;
  if (mode == "W") return AccessMode::write;
  return mode == "R" ? AccessMode::read : AccessMode::update;
}

// A RankWriter writes one rank's trace.
class RankWriter {
 public:
  RankWriter(std::vector<FxtTask>& jobs, const fs::path& source) : jobs_(jobs), source_(source) {}

  trace::Buffer lines(std::int64_t rank) {
    std::ranges::sort(jobs_, [](const FxtTask& a, const FxtTask& b) {
      return std::tie(a.submitted, a.start, a.id) < std::tie(b.submitted, b.start, b.id);
    });
    for (std::uint32_t i = 0; i < jobs_.size(); ++i) index_.emplace(jobs_[i].id, i);
    trace::append(buffer_, trace::Header{.rank = static_cast<int>(rank),
                                         .command = "imported from " + source_.string()});
    define_workers();
    define_codelets();
    find_dependencies();
    Nanoseconds end = 0;
    for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
      write(i);
      end = std::max(end, nanoseconds(jobs_[i].end));
    }
    trace::append(buffer_, trace::End{.at = end, .tasks = jobs_.size()});
    return std::move(buffer_);
  }

 private:
  static Nanoseconds nanoseconds(double milliseconds) { return std::llround(milliseconds * 1e6); }

  void define_workers() {
    std::map<std::int64_t, std::int64_t> nodes;
    for (const FxtTask& job : jobs_) nodes.emplace(job.worker, job.node);
    for (const auto& [worker, node] : nodes) {
      const std::string kind = node == 0 ? "CPU" : fmt::format("node {}", node);
      trace::append(buffer_, trace::Worker{.id = static_cast<std::int32_t>(worker),
                                           .name = fmt::format("worker {}", worker),
                                           .kind = kind,
                                           .node = static_cast<std::int32_t>(node)});
    }
  }

  void define_codelets() {
    for (FxtTask& job : jobs_) {
      if (job.name.empty()) job.name = "unnamed";
      const auto id = static_cast<std::uint32_t>(codelets_.size());
      if (codelets_.emplace(job.name, id).second)
        trace::append(
            buffer_,
            trace::Codelet{
                .id = id, .name = job.name, .color = 0x808080, .implementations = {"unknown"}});
    }
  }

  std::uint32_t data(const std::string& name, std::uint64_t bytes) {
    const auto id = static_cast<std::uint32_t>(data_.size());
    const auto [known, is_new] = data_.emplace(name, id);
    if (is_new) trace::append(buffer_, trace::Data{.id = id, .name = name, .bytes = bytes});
    return known->second;
  }

  // Returns whether both access a common piece of data, which orders them already.
  static bool share_data(const FxtTask& a, const FxtTask& b) {
    return std::ranges::any_of(a.handles, [&](const std::string& handle) {
      return std::ranges::find(b.handles, handle) != b.handles.end();
    });
  }

  // Finds the dependencies of each job, and the explicit ones, which do not follow from data.
  void find_dependencies() {
    dependencies_.resize(jobs_.size());
    explicit_.resize(jobs_.size());
    waited_for_.resize(jobs_.size());
    for (std::uint32_t i = 0; i < jobs_.size(); ++i)
      for (const std::string& name : jobs_[i].depends_on) {
        const auto found = index_.find(name);
        if (found == index_.end() || found->second >= i) continue;
        dependencies_[i].push_back(found->second);
        if (share_data(jobs_[found->second], jobs_[i])) continue;
        explicit_[i].push_back(found->second);
        waited_for_[found->second] = true;
      }
  }

  // Returns an invented piece of data for an explicit dependency: one task writes it, others read
  // it.
  std::uint32_t token(std::uint32_t job) { return data("end of " + jobs_[job].id, 0); }

  void write(std::uint32_t index) {
    const FxtTask& job = jobs_[index];
    std::vector<trace::Access> accesses;
    for (std::size_t i = 0; i < job.modes.size(); ++i) {
      if (job.modes[i].empty() || job.modes[i] == "S") continue;  // scratch
      const std::uint64_t bytes = i < job.sizes.size() ? job.sizes[i] : 0;
      accesses.push_back(
          {data("handle " + job.handles[i], std::min(bytes, kMostBytes)), mode_of(job.modes[i])});
    }
    const Nanoseconds submitted = nanoseconds(job.submitted), start = nanoseconds(job.start);
    Nanoseconds ready = submitted;
    for (const std::uint32_t before : dependencies_[index])
      ready = std::max(ready, std::min(start, nanoseconds(jobs_[before].end)));
    // The writer comes first, because tasks are in the order of submission.
    for (const std::uint32_t before : explicit_[index])
      accesses.push_back({token(before), AccessMode::read});
    if (waited_for_[index]) accesses.push_back({token(index), AccessMode::write});
    const Nanoseconds end = nanoseconds(job.end);
    trace::Task task;
    task.id = index;
    task.codelet = codelets_.at(job.name);
    task.worker = static_cast<std::int32_t>(job.worker);
    task.iteration = job.iteration;
    task.times = {submitted, ready, start, start, start, start, start, end, end};
    task.flops = job.gigaflops * 1e9;
    task.accesses = accesses;
    trace::append(buffer_, task);
  }

  std::vector<FxtTask>& jobs_;
  const fs::path& source_;
  trace::Buffer buffer_;
  std::unordered_map<std::string, std::uint32_t> index_, codelets_, data_;
  std::vector<std::vector<std::uint32_t>> dependencies_, explicit_;  // of a job: earlier ones
  std::vector<bool> waited_for_;  // by job: another job waits for it explicitly
};

fs::path tasks_file(const fs::path& from) {
  std::error_code ignored;
  return fs::is_directory(from, ignored) ? from / "tasks.rec" : from;
}

Status make_empty_folder(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (!problem && !fs::is_empty(folder, problem) && !problem)
    return Error{ErrorKind::usage, folder.string(), "is not empty", "choose a new folder"};
  if (problem)
    return Error{ErrorKind::usage, folder.string(), "cannot make the folder: " + problem.message(),
                 "choose another one"};
  return {};
}

}  // namespace

Result<Imported> import_fxt(const fs::path& from, const fs::path& to) {
  const fs::path source = tasks_file(from);
  OMNI_TRY(FxtTasks tasks, read_fxt_tasks(source));
  OMNI_CHECK(make_empty_folder(to));
  Imported imported{.tasks = 0, .ranks = tasks.by_rank.size(), .left_out = tasks.left_out};
  for (auto& [rank, jobs] : tasks.by_rank) {
    imported.tasks += jobs.size();
    const trace::Buffer lines = RankWriter(jobs, source).lines(rank);
    OMNI_CHECK(write_file_atomically(to / fmt::format("rank-{}.jsonl", rank),
                                     {lines.data(), lines.size()}));
  }
  return imported;
}

}  // namespace omni::perf
