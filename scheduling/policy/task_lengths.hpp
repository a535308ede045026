// Predictions of StarPU's models for one task: its length, its best implementation, the time of its
// transfers. All times in microseconds.
#pragma once

#include <starpu.h>

#include <array>
#include <optional>
#include <span>

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

// For tasks without a model: by flops, bytes, and the usual rates of a core or of a GPU.
double guess_length(const starpu_task& task, starpu_worker_archtype type);

// Time to move all data of a task there, including data that it only writes: later tasks expect
// them where they were. So a slice stays in place unless moving pays.
double transfer_length(const starpu_task& task, unsigned node);

// Data that a task updates are used again where they were used before: parameters in the next
// pass. Time to return them there from `node`:
double return_length(const starpu_task& task, unsigned node);
// Requests the transfer back; it starts when the task releases the data.
void return_updates(const starpu_task& task, unsigned node);
// Notes that the task uses its data on `node`.
void note_use(const starpu_task& task, unsigned node);

}  // namespace omni
