// Calls that only one worker, of a GPU, can serve, submitted to StarPU as one task. Apart, each
// that needs another's result would be handed to the GPU when the host has seen that one's end, and
// the GPU would wait for the host some hundred times per mini-batch. The one task enqueues the
// kernels of all of them at once, in the order in which they were submitted.
//
// As many as take milliseconds: others want the GPU, too, and the data that such a task has used.
// Where nobody does, a whole iteration: between two such tasks the GPU waits for the host.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/tasks/calls/codelet_call.hpp"

namespace omni {

class TaskChain {
 public:
  static constexpr std::size_t kMostCalls = 64;

  TaskChain(const WorkerSet* workers, std::size_t most_calls)
      : workers_(workers), most_calls_(most_calls) {}
  TaskChain(const TaskChain&) = delete;
  TaskChain& operator=(const TaskChain&) = delete;

  // Of the calling thread; null: none.
  static TaskChain* open();

  void append(CodeletCall::Owner call, std::span<const Access> accesses, int priority);
  void submit();  // what was appended so far

 private:
  struct Link {
    CodeletCall::Owner call;
    std::vector<std::uint32_t> data;  // of handles_
  };
  struct Task;
  const WorkerSet* workers_;  // null: all; one of a GPU is among them
  std::size_t most_calls_;
  std::vector<Link> links_;
  std::vector<DataHandle> handles_;
  std::vector<AccessMode> modes_;
  std::unordered_map<DataHandle, std::uint32_t> numbers_;
  int priority_ = 0;
};

// What the calling thread submits in this scope becomes chains, where it is wanted and the
// SubmissionScope's workers let one worker of a GPU serve it. Tasks that a CPU may run come in
// between. In an outer scope nothing changes.
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
