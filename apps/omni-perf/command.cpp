// What the subcommands share: reading a trace, and writing the result.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "apps/omni-perf/commands.hpp"
#include "perf/trace/reader.hpp"
#include "runtime/log.hpp"

namespace omni::perf {

void add_output(CLI::App& app, Output& output) {
  auto* json = app.add_flag("--json", output.json, "Write JSON; times in seconds, shares of 1");
  auto* csv =
      app.add_flag("--csv", output.csv, "Write one table as CSV; the first one, or --table");
  csv->excludes(json);
  app.add_option("--table", output.table, "The table for --csv, by its name in JSON")->needs(csv);
}

Status write(const Document& document, const Output& output, bool complete) {
  const bool known = std::any_of(document.tables.begin(), document.tables.end(),
                                 [&](const Table& table) { return table.key == output.table; });
  if (!output.table.empty() && !known) {
    std::string names;
    for (const Table& table : document.tables) names += (names.empty() ? "" : ", ") + table.key;
    return Error{ErrorKind::usage, "--table", "there is no table " + plain(output.table),
                 "one of: " + names};
  }
  const std::string text = output.json  ? as_json(document, complete)
                           : output.csv ? as_csv(document, output.table)
                                        : as_text(document);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

Result<Trace> open_trace(const std::string& path) {
  OMNI_TRY(Trace trace, read_trace(path));
  if (!trace.complete)
    log::warn("{}: the run was killed; what is said here is about the part before that", path);
  return trace;
}

Command trace_command(CLI::App& parent, const char* name, const char* purpose, const char* json,
                      std::function<Result<Document>(const Trace&)> analyse) {
  struct Arguments {
    std::string path;
    Output output;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* app = parent.add_subcommand(name, purpose);
  app->add_option("trace", arguments->path, "Folder of a trace, or one of its files")->required();
  add_output(*app, arguments->output);
  app->footer(fmt::format("JSON, beside \"complete\" (false: the run was killed):\n{}", json));
  return {.app = app, .run = [arguments, analyse = std::move(analyse)]() -> Result<int> {
            OMNI_TRY(const Trace trace, open_trace(arguments->path));
            OMNI_TRY(const Document document, analyse(trace));
            OMNI_CHECK(write(document, arguments->output, trace.complete));
            return 0;
          }};
}

}  // namespace omni::perf
