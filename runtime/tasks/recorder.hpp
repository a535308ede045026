// Records what a run does as a trace (runtime/trace), through StarPU's public profiling hooks. Off
// unless a Recorder lives; then every task is noted when it is submitted and written when it is
// done. Lines collect in a buffer per thread and reach the file after half a second, or when the
// submitting thread next comes back from waiting.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "runtime/result.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/submission.hpp"
#include "runtime/trace/records.hpp"

struct starpu_task;
struct starpu_profiling_task_info;

namespace omni {

class CodeletBase;

// One at a time; made after the Session and destroyed before it.
class Recorder {
 public:
  // Makes the folder, and records into it. If it holds a trace already (a requeued job runs the
  // same command again), takes the first unused name of "<folder>-2", "<folder>-3" ...
  // header.started: seconds by which this host's clock is behind that of the first rank.
  static Result<std::unique_ptr<Recorder>> start(const std::filesystem::path& folder,
                                                 trace::Header header);
  ~Recorder();  // waits for all tasks; a failure to write is a warning
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  explicit Recorder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::filesystem::path folder_;
};

// All of these do nothing while no Recorder lives.
namespace recording {

bool on();
trace::Nanoseconds now();

// The submitting thread begins an iteration; the SubmissionScope says which tasks belong to it.
void begin_iteration(std::int64_t iteration);
// A Layer, Peak, Counter, Transfer, Exchange or Meeting; also in threads that outlive a Recorder.
template <class Record>
void write(const Record& record);

// Time that the submitting thread waited in a scope.
class WaitScope {
 public:
  explicit WaitScope(bool for_all);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  bool for_all_;
  trace::Nanoseconds from_;
};

// ---- for codelets: what is known of a task before it ran ----

struct PendingTask {
  trace::Task task;
  std::vector<trace::Access> accesses;
};

// `eligible` has all workers, by number.
PendingTask* submitted(const CodeletBase& codelet, std::span<const Access> accesses, TaskTag tag,
                       double flops, double bytes, const std::vector<bool>& eligible);
void finished(PendingTask* pending, const starpu_task& task);  // and frees it
// Times of one call in a chain, in microseconds before the end of the chain's task: when the GPU
// was free for it, when it started (the host may have launched it late), and when it ended.
struct BeforeEnd {
  double turn = 0, from = 0, to = 0;
  bool first = true;
};
void finished_among_others(PendingTask* pending, const starpu_profiling_task_info& chain,
                           BeforeEnd computed);

}  // namespace recording
}  // namespace omni
