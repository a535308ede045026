// Reads what a run recorded: a folder of rank-<n>.jsonl (or .jsonl.part of a killed run), or one
// such file. Nothing in a file is trusted; a problem is ErrorKind::data with "file:line".
#pragma once

#include <filesystem>
#include <string_view>

#include "perf/trace/trace.hpp"
#include "runtime/result.hpp"

namespace omni::perf {

Result<Trace> read_trace(const std::filesystem::path& path);

// Whether a file is called as the recording of a process is.
bool is_called_like_a_recording(const std::filesystem::path& path);

// The same of a text; `name` stands for the file. killed: as a .part file.
Result<Trace> read_trace_text(std::string_view text, std::string_view name, bool killed = false);

}  // namespace omni::perf
