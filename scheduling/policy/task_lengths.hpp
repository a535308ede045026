// What StarPU's models say of one task: how long it will run, which implementation is best, how
// long its data will travel. All times in microseconds.
#pragma once

#include <starpu.h>

#include <array>
#include <optional>
#include <span>

#include "scheduling/policy/exploration.hpp"

namespace omni {

using Choices = std::array<Choice, STARPU_MAXIMPLEMENTATIONS>;

// The implementations that the worker may run the task with, in `room`. One that the model does not
// know yet is alone, so that it gets known.
std::span<const Choice> known_implementations(starpu_task* task, unsigned worker, Choices& room);
// Which model predicts it there.
Exploration::Model model_of(starpu_task* task, unsigned worker);

// The expected length of the best implementation, a guess where there is no model; NaN: not known
// for all of them yet. Nothing when none of these workers, which are equals, may run the task.
std::optional<double> best_length(starpu_task* task, std::span<const unsigned> workers);

// To tell what is worth trying when no model knows: the order of magnitude of a core and of a GPU.
double guess_length(const starpu_task& task, starpu_worker_archtype type);

// To bring all of a task's data there, also what it only writes: where that was before, others
// will want it again. So a slice stays where it is unless moving pays.
double transfer_length(const starpu_task& task, unsigned node);

// What a task reads and writes again, its user before will use after it, too: parameters are
// updated for the next pass. To bring it back there from where the task runs,
double return_length(const starpu_task& task, unsigned node);
// which is asked for while the task still has the data, and done as soon as it has not;
void return_updates(const starpu_task& task, unsigned node);
// and who uses its data from now on.
void note_use(const starpu_task& task, unsigned node);

}  // namespace omni
