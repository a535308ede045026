// A trace in the Trace Event Format, which Perfetto and Chromium's own viewer open: a process per
// rank, a thread per worker, a slice per task, an arrow per dependency.
#pragma once

#include <filesystem>

#include "perf/trace/dependencies.hpp"
#include "runtime/result.hpp"

namespace omni::perf {

// Streams: the whole text is never in memory.
Status export_chrome(const Trace& trace, const Dependencies& dependencies,
                     const std::filesystem::path& path);

}  // namespace omni::perf
