// The import makes a trace of what starpu_fxt_tool writes about the tasks of any StarPU program
// (tasks.rec).
//
// The file lacks much of what our recorder notes: when workers ask for tasks, fetches, predictions,
// and the submitting thread. So a task counts as ready when the tasks on which it depends are done.
// The time from then to its start counts as scheduling. Workers on memory node 0 are called CPU,
// others by their node.
#pragma once

#include <cstddef>
#include <filesystem>

#include "runtime/result.hpp"

namespace omni::perf {

struct Imported {
  std::size_t tasks = 0, ranks = 0;
  std::size_t left_out = 0;  // tasks that no worker ran, such as those without a codelet
};

// `from` is tasks.rec or its folder. `to` must be an empty folder; it is created if it is missing.
Result<Imported> import_fxt(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace omni::perf
