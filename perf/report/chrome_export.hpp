// This header writes a trace as a file in the Trace Event Format, which Perfetto and Chromium's own
// viewer open.
#pragma once

#include <filesystem>

#include "perf/trace/dependencies.hpp"
#include "perf/trace/trace.hpp"
#include "runtime/result.hpp"

namespace omni::perf {

// The file has a process per rank, a thread per worker, a slice per task, and an arrow per
// dependency. It is written piece by piece, so its whole text is never in memory.
Status export_chrome(const Trace& trace, const Dependencies& dependencies,
                     const std::filesystem::path& path);

}  // namespace omni::perf
