// A TaskChain submits several calls, all for the same GPU worker, to StarPU as one task. The task
// enqueues the kernels of all calls in order. As separate tasks, a call that needs another's result
// would reach the GPU only after the host has seen that the other call is done. A mini-batch has
// hundreds of such calls.
//
// If other tasks need the GPU or the data, a chain has at most kMostCalls calls, which take some
// milliseconds. Otherwise it is a whole iteration, because the GPU waits for the host between two
// chains.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/tasks/calls/codelet_call.hpp"
#include "runtime/tasks/calls/kept_on_gpu.hpp"
#include "runtime/tasks/worker_set.hpp"

namespace omni {

class TaskChain {
 public:
  static constexpr std::size_t kMostCalls = 64, kWholeIteration = 4096;

  TaskChain(const WorkerSet* workers, std::size_t most_calls)
      : workers_(workers), most_calls_(most_calls) {}
  TaskChain(const TaskChain&) = delete;
  TaskChain& operator=(const TaskChain&) = delete;

  // Returns the chain that the calling thread has open; null: there is none.
  static TaskChain* open();

  void append(CodeletCall::Owner call, std::span<const Access> accesses, int priority);
  void submit();  // submits what was appended so far
  // Records the times of chains that are done, and frees these chains. Every chain calls it after
  // it has enqueued its work. Call it also before the times are read, and before a session ends.
  static void record_finished();

 private:
  struct Link {
    CodeletCall::Owner call;
    std::vector<std::uint32_t> data;  // indices into uses_
  };
  struct Task;
  const WorkerSet* workers_;  // has one GPU worker; null: all workers
  std::size_t most_calls_;
  std::vector<Link> links_;
  std::vector<KeptOnGpu::Use> uses_;
  std::unordered_map<DataHandle, std::uint32_t> numbers_;
  int priority_ = 0;
};

// Returns whether the time of the task that runs in this thread counts: for StarPU's models of its
// codelet, for a trace, or for task_times. Outside of StarPU's tasks, and in a chain that is not
// recorded, it does not.
bool time_counts();

// In a ChainScope, calls of the calling thread are chained if only GPUs compute, and the workers of
// the SubmissionScope have only one GPU worker. Calls that a core may run are tasks of their own
// between chains. A nested scope changes nothing.
class ChainScope {
 public:
  explicit ChainScope(bool wanted = true, std::size_t most_calls = TaskChain::kMostCalls);
  ~ChainScope();
  ChainScope(const ChainScope&) = delete;
  ChainScope& operator=(const ChainScope&) = delete;

 private:
  TaskChain chain_;
  bool opened_ = false;
};

}  // namespace omni
