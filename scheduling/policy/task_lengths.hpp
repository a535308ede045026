// What the policy asks about one task. Predictions of StarPU's models: its length, its best
// implementation, the time of its transfers. All times in microseconds.
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

// The implementations with which the worker may run the task, in `room`. If the model does not know
// one yet, only that one is returned, so that it is measured.
std::span<const Choice> known_implementations(starpu_task* task, unsigned worker, Choices& room);
// The model that predicts the task there.
Exploration::Model model_of(starpu_task* task, unsigned worker);

// The expected length of the best implementation, a guess where there is no model; NaN: not known
// for all of them yet. Nothing when none of these workers, which are equals, may run the task.
std::optional<double> best_length(starpu_task* task, std::span<const unsigned> workers);

// Requests the transfers of TaskFacts::back(); each starts when the task releases the data.
void return_updates(const starpu_task& task, unsigned node);

// The workers that a task names, copied before it is pushed: then it may be run and gone at any
// time. The masks themselves outlive it (WorkerSet).
struct NamedWorkers {
  explicit NamedWorkers(const starpu_task& task) : bits(task.workerids, task.workerids_len) {}
  bool contains(int worker) const {
    const std::size_t number = worker;
    return bits.empty() || (number / 32 < bits.size() && ((bits[number / 32] >> number % 32) & 1));
  }
  std::span<const std::uint32_t> bits;  // none: all workers
};

// For Dispatcher.
struct TaskFacts {
  using Kind = WorkerKind<starpu_task*>;
  static constexpr double kMicrosecond = 1;
  int priority(const starpu_task* task) const { return task->priority; }
  BacklogForecast::Sort sort(const starpu_task* task) const {
    return {reinterpret_cast<std::uintptr_t>(task->cl), task->priority};
  }
  // StarPU lets a commuting task hold its data from before it is ready.
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
  // By flops, bytes, and the usual rates of a core or of a GPU.
  double guess(const starpu_task* task, const Kind& kind) const;
  // Time to move all data of a task there, including data that it only writes: later tasks expect
  // them where they were. So a slice stays in place unless moving pays.
  double transfer(const starpu_task* task, unsigned node) const;
  // Data that a task updates are used again where they were used before: parameters in the next
  // pass. Time to return them there from `node`:
  double back(const starpu_task* task, unsigned node) const;
  void takes(const starpu_task* task, unsigned node) const;
};

}  // namespace omni
