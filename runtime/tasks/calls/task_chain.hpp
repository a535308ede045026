// Calls that only one GPU worker can run, submitted to StarPU as one task. As separate tasks, a
// call that needs another's result would reach the GPU only after the host has seen that result,
// some hundred times per mini-batch. The one task enqueues the kernels of all calls in order.
//
// Where other tasks need the GPU or the data, a chain is limited to some milliseconds. Otherwise it
// is a whole iteration, since the GPU waits for the host between two chains.
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

  // The chain that the calling thread has open; null: none.
  static TaskChain* open();

  void append(CodeletCall::Owner call, std::span<const Access> accesses, int priority);
  void submit();  // what was appended so far
  // Writes the times of chains that are done, and frees them. A chain does that for those before
  // it, once the GPU has its work; whoever reads the times, and a session that ends, for the rest.
  static void record_finished();

 private:
  struct Link {
    CodeletCall::Owner call;
    std::vector<std::uint32_t> data;  // of uses_
  };
  struct Task;
  const WorkerSet* workers_;  // null: all; one of a GPU is among them
  std::size_t most_calls_;
  std::vector<Link> links_;
  std::vector<KeptOnGpu::Use> uses_;
  std::unordered_map<DataHandle, std::uint32_t> numbers_;
  int priority_ = 0;
};

// In this scope, calls that the calling thread submits are chained, if chains are enabled and the
// SubmissionScope's workers include one GPU worker that can run them. Tasks that a CPU may run are
// submitted in between. A nested scope changes nothing.
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
