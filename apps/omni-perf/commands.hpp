// This header declares the subcommands of omni-perf; similar ones share a file. Each adds itself to
// the command line, and main() runs the one that the user named.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "apps/omni-perf/document.hpp"
#include "perf/trace/trace.hpp"
#include "runtime/result.hpp"

namespace omni::perf {

struct Command {
  CLI::App* app = nullptr;
  std::function<Result<int>()> run;  // the exit code
};

struct Output {
  bool json = false, csv = false;
  std::string table;  // that CSV has; "": the first
};

void add_output(CLI::App& app, Output& output);
// Writes to stdout. Returns an error if `output` names a table that the document does not have.
Status write(const Document& document, const Output& output, bool complete);

// Calls read_trace(), and warns if the run was killed.
Result<Trace> open_trace(const std::string& path);

// Makes a command that reads one trace and writes one document. `json` describes its JSON in
// --help.
Command trace_command(CLI::App& parent, const char* name, const char* purpose, const char* json,
                      std::function<Result<Document>(const Trace&)> analyse);
// Makes the same command with an option --by layer.
Command trace_command_by_layer(CLI::App& parent, const char* name, const char* purpose,
                               const char* json, Document (*analyse)(const Trace&, bool by_layer));
inline Column layer_column(bool by_layer) {  // false: an empty column, which is shown nowhere
  return by_layer ? Column{"layer", "layer"} : Column{};
}

Command summary_command(CLI::App& parent);
Command idle_command(CLI::App& parent);
Command kernels_command(CLI::App& parent);
Command critical_path_command(CLI::App& parent);
Command bounds_command(CLI::App& parent);
Command roofline_command(CLI::App& parent);
Command models_command(CLI::App& parent);
Command transfers_command(CLI::App& parent);
Command async_command(CLI::App& parent);
Command memory_command(CLI::App& parent);
Command diff_command(CLI::App& parent);
Command import_command(CLI::App& parent);
Command report_command(CLI::App& parent);
Command export_command(CLI::App& parent);

}  // namespace omni::perf
