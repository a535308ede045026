// A Recorder writes a trace (runtime/trace) by StarPU's public profiling hooks. While it lives,
// every task is noted when it is submitted, and written when it is done. Each thread collects lines
// in a buffer, which it writes to the file when they are many or half a second old. When the
// submitting thread begins an iteration or has waited, it also writes out old lines of other
// threads.
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

// A Recorder is made after the Session and destroyed before it. Either there is one at a time,
// which records all threads. Or each of several trainings in the process has one, which records the
// threads in its Scope.
class Recorder {
 public:
  enum class Of { all_threads, scopes };
  struct State;  // in recorder.cpp
  // The thread's submissions, iterations and waits in this scope belong to the Recorder. Its tasks
  // must end before the Recorder is destroyed.
  class Scope {
   public:
    explicit Scope(const Recorder* recorder);  // null: they belong to what they did before
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    void* outer_;
  };

  // Makes the folder, and records into it. If it has a trace of this rank already, takes the first
  // unused of "<folder>-2", "<folder>-3" and so on: a requeued job runs the same command again.
  // `header.started` is the number of seconds by which this host's clock is behind the first
  // rank's.
  static Result<std::unique_ptr<Recorder>> start(const std::filesystem::path& folder,
                                                 trace::Header header, Of of = Of::all_threads);
  ~Recorder();  // waits for all tasks; if it cannot write, it warns
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  Recorder(std::filesystem::path folder, std::unique_ptr<State> state, Of of);
  std::filesystem::path folder_;
  std::unique_ptr<State> state_;
  Of of_;
};

// The following functions do nothing if no Recorder records the calling thread.
namespace recording {

bool on();
trace::Nanoseconds now();

// Writes that the submitting thread begins an iteration. The tasks that belong to it are those with
// this Submission::iteration.
void begin_iteration(std::int64_t iteration);
// Writes a Layer, Peak, Counter, Transfer, Exchange or Meeting. Threads that outlive the Recorder
// may call it.
template <class Record>
void write(const Record& record);

// The submitting thread waits in this scope. The destructor writes a Wait if it took 2 us or more.
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

// The following functions are for codelets.

// A PendingTask has what is known of a task before the task has run.
struct PendingTask {
  void* recorder;  // its state
  trace::Task task;
  std::vector<trace::Access> accesses;
};

// `eligible` says for each worker, by number, whether it may run the task.
PendingTask* submitted(const CodeletBase& codelet, std::span<const Access> accesses, TaskTag tag,
                       double flops, double bytes, const std::vector<bool>& eligible);
void finished(PendingTask* pending, const starpu_task& task);  // writes and frees `pending`
// A BeforeEnd has the times of one call in a chain, in microseconds before the end of the chain's
// task.
struct BeforeEnd {
  double turn = 0;    // when the GPU was free for the call
  double from = 0;    // when the call started: later than `turn` if the host launched it late
  double to = 0;      // when the call ended
  bool first = true;  // of its chain
};
// Does what finished() does, for a call in a chain.
void finished_among_others(PendingTask* pending, const starpu_profiling_task_info& chain,
                           BeforeEnd computed);

}  // namespace recording
}  // namespace omni
