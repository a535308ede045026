#include "perf/trace/fxt_import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "perf/trace/fxt_tasks.hpp"
#include "runtime/files.hpp"
#include "runtime/trace/lines.hpp"

namespace omni::perf {
namespace {

namespace fs = std::filesystem;
using trace::AccessMode, trace::Nanoseconds;

constexpr std::uint64_t kMostBytes = 1'000'000'000'000'000'000;

bool is_commuting(std::string_view mode) { return mode.find_first_of("CX") != mode.npos; }

AccessMode mode_of(std::string_view mode) {
  if (is_commuting(mode)) return AccessMode::add;
  if (mode == "W") return AccessMode::write;
  return mode == "R" ? AccessMode::read : AccessMode::update;
}

// Writes one rank.
class RankWriter {
 public:
  RankWriter(std::vector<FxtTask>& jobs, const fs::path& source) : jobs_(jobs), source_(source) {}

  trace::Buffer lines(std::int64_t rank) {
    std::sort(jobs_.begin(), jobs_.end(), [](const FxtTask& a, const FxtTask& b) {
      return std::tie(a.submitted, a.start, a.id) < std::tie(b.submitted, b.start, b.id);
    });
    for (std::uint32_t i = 0; i < jobs_.size(); ++i) index_.emplace(jobs_[i].id, i);
    trace::append(buffer_, {.rank = static_cast<int>(rank),
                            .started = 0,
                            .host = "",
                            .command = "imported from " + source_.string(),
                            .starpu = "",
                            .scheduler = "",
                            .net = "",
                            .batch = 0});
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

  // Both touch a common piece of data, which orders them already.
  static bool share_data(const FxtTask& a, const FxtTask& b) {
    return std::any_of(a.handles.begin(), a.handles.end(), [&](const std::string& handle) {
      return std::find(b.handles.begin(), b.handles.end(), handle) != b.handles.end();
    });
  }

  // StarPU orders most tasks by their data; only what remains has to be written down.
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

  // A piece of data that stands for an explicit dependency: one task writes it, others read it.
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
    // The writer's line comes first, as tasks are written in the order of submission.
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
  std::vector<bool> waited_for_;                                     // explicitly
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
