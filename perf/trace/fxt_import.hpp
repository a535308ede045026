// Turns what starpu_fxt_tool writes about the tasks of any StarPU program (tasks.rec) into a trace.
//
// It knows less than our recorder: nothing about who asked for work when, fetching, predictions,
// and the submitting thread; a task is ready when the tasks are done that it depends on, and
// whatever passes from then to its start counts as scheduling. Workers on memory node 0 are called
// CPU, others by their node.
#pragma once

#include <filesystem>

#include "runtime/result.hpp"

namespace omni::perf {

struct Imported {
  std::size_t tasks = 0, ranks = 0;
  std::size_t left_out = 0;  // tasks that no worker ran: without a codelet, or not ended
};

// `from`: tasks.rec, or its folder. `to`: a folder, created if missing, without a trace in it.
Result<Imported> import_fxt(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace omni::perf
