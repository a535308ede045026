// These functions make predictions for a task from StarPU's performance models: its length, its
// best implementation, and the time of its transfers. All times are in microseconds.
#pragma once

#include <starpu.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "scheduling/policy/dispatcher.hpp"
#include "scheduling/policy/exploration.hpp"

namespace omni {

using Choices = std::array<Choice, STARPU_MAXIMPLEMENTATIONS>;

// Returns the implementations with which the worker may run the task, stored in `room`. If the
// model does not know one of them yet, only that one is returned, so that it will be measured.
std::span<const Choice> known_implementations(starpu_task* task, unsigned worker, Choices& room);
// Returns the model that predicts the task's length on the worker.
Exploration::Model model_of(starpu_task* task, unsigned worker);

// Returns the expected length of the best implementation, or a guess if there is no model. Returns
// NaN if an implementation is not measured yet. Returns nothing if none of the workers, which are
// equal, may run the task.
std::optional<double> best_length(starpu_task* task, std::span<const unsigned> workers);

// Requests the transfers whose time TaskFacts::back() returns. Each starts when the task has
// released the data and the link is idle.
void return_updates(const starpu_task& task, unsigned node);

// NamedWorkers are the workers to which a task is bound. They are copied before the task is pushed,
// as it may run and be destroyed at any time after. The masks outlive the task (WorkerSet).
struct NamedWorkers {
  explicit NamedWorkers(const starpu_task& task) : bits(task.workerids, task.workerids_len) {}
  bool contains(int worker) const {
    const std::size_t number = worker;
    return bits.empty() || (number / 32 < bits.size() && ((bits[number / 32] >> number % 32) & 1));
  }
  std::span<const std::uint32_t> bits;  // empty: all workers
};

// TaskFacts are the `Facts` of Dispatcher.
struct TaskFacts {
  using Kind = WorkerKind<starpu_task*>;
  static constexpr double kMicrosecond = 1;
  int priority(const starpu_task* task) const { return task->priority; }
  BacklogForecast::Sort sort(const starpu_task* task) const {
    return {reinterpret_cast<std::uintptr_t>(task->cl), task->priority};
  }
  // Returns true if the task commutes with other tasks. StarPU lets such tasks hold their data from
  // before they are ready.
  bool holds_shared(const starpu_task* task) const;
  bool runs(starpu_task* task, unsigned worker) const {
    return starpu_worker_can_execute_task_impl(worker, task, nullptr) != 0;
  }
  bool is_for(const starpu_task* task, unsigned worker) const {
    return NamedWorkers(*task).contains(static_cast<int>(worker));
  }
  std::optional<double> length(starpu_task* task, const Kind& kind) const {
    return best_length(task, kind.workers);
  }
  // Estimates the length from flops, bytes, and the usual rates of a core or of a GPU.
  double guess(const starpu_task* task, const Kind& kind) const;
  // Returns the time to move all data of a task to `node`. Data that it only writes counts as well,
  // as later tasks expect it in its old place. So a slice stays in its memory unless moving it is
  // faster.
  double transfer(const starpu_task* task, unsigned node) const;
  // Returns the time to return updated data from `node` to the memory where it was used before. It
  // is used again in that memory, as parameters are in the next pass.
  double back(const starpu_task* task, unsigned node) const;
  void takes(const starpu_task* task, unsigned node) const;
};

}  // namespace omni
