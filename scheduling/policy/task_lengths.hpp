// What StarPU's models say of one task: how long it will run, which implementation is best, how
// long its data will travel. All times in microseconds.
#pragma once

#include <starpu.h>

#include <optional>
#include <span>

namespace omni {

struct Choice {
  unsigned implementation;
  double length;  // NaN: the model is not sure yet
};

// The implementation with the smallest expected length; one that the model does not know yet comes
// first, so that it gets known. Nothing when the worker may not run the task.
std::optional<Choice> choose_implementation(starpu_task* task, unsigned worker);

// The expected length of the best implementation, a guess where there is no model; NaN: not known
// for all of them yet. Nothing when none of these workers, which are equals, may run the task.
std::optional<double> best_length(starpu_task* task, std::span<const unsigned> workers);

// To tell what is worth trying when no model knows: the order of magnitude of a core and of a GPU.
double guess_length(const starpu_task& task, starpu_worker_archtype type);

// To bring all of a task's data there, also what it only writes: where that was before, others
// will want it again. So a slice stays where it is unless moving pays.
double transfer_length(const starpu_task& task, unsigned node);

}  // namespace omni
