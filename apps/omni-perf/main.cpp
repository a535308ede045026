// omni-perf reads traces and says where the time went.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/command_line.hpp"
#include "apps/omni-perf/commands.hpp"
#include "perf/trace/trace.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/signals.hpp"

namespace omni::perf {
namespace {

constexpr const char* kFooter = R"(Examples:
  omni-run --net lenet --trace run1           (writes the folder run1)
  omni-perf summary run1
  omni-perf idle run1 --json
  omni-perf report run1 --html run1.html      (timeline and all else, for a browser)
  omni-perf diff run1 run2 --threshold 15     (exit code 1: something got slower)

Exit codes: 0 ok, 1 failed (diff: slower), 2 usage, 3 bad trace, 4 out of memory.)";

int run(int argc, char** argv) {
  CLI::App app("Where did the time go? Reads what omni-run --trace wrote.", "omni-perf");
  use_grouped_help(app);
  app.set_version_flag("--version", fmt::format("omni-perf {}", kVersion));
  app.require_subcommand(1);
  const Command commands[] = {
      summary_command(app), idle_command(app),     kernels_command(app), critical_path_command(app),
      bounds_command(app),  roofline_command(app), models_command(app),  transfers_command(app),
      async_command(app),   memory_command(app),   diff_command(app),    import_command(app),
      report_command(app),  export_command(app)};
  app.footer(kFooter);                   // only now: subcommands made later would print it, too
  if (argc == 1) log::line(app.help());  // what there is to ask for
  if (const auto code = read_command_line(app, argc, argv)) return *code;
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const Result<int> code = command.run();
    if (code) return *code;
    log::error("{}", code.error().message());
    return exit_code(code.error().kind);
  }
  return kSuccess;
}

}  // namespace

// The following functions are shared by the subcommands.

void add_output(CLI::App& app, Output& output) {
  auto* json = app.add_flag("--json", output.json, "Write JSON; times in seconds, shares of 1");
  auto* csv =
      app.add_flag("--csv", output.csv, "Write one table as CSV; the first one, or --table");
  csv->excludes(json);
  app.add_option("--table", output.table, "<NAME> The table for --csv, by its name in JSON")
      ->needs(csv);
}

Status write(const Document& document, const Output& output, bool complete) {
  const bool known = std::ranges::any_of(
      document.tables, [&](const Table& table) { return table.key == output.table; });
  if (!output.table.empty() && !known) {
    std::string names;
    for (const Table& table : document.tables) names += (names.empty() ? "" : ", ") + table.key;
    return Error{ErrorKind::usage, "--table", "there is no table " + output.table,
                 "one of: " + names};
  }
  const std::string text = output.json  ? as_json(document, complete)
                           : output.csv ? as_csv(document, output.table)
                                        : as_text(document);
  log::result_text(text);
  return {};
}

Result<Trace> open_trace(const std::string& path) {
  OMNI_CHECK(require_there(path));
  OMNI_TRY(Trace trace, read_trace(path));
  if (!trace.complete) log::warn("{}: the run was killed; the figures cover the time before", path);
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

Command trace_command_by_layer(CLI::App& parent, const char* name, const char* purpose,
                               const char* json, Document (*analyse)(const Trace&, bool by_layer)) {
  const auto by = std::make_shared<std::string>();
  Command command = trace_command(parent, name, purpose, json, [by, analyse](const Trace& trace) {
    return Result<Document>(analyse(trace, *by == "layer"));
  });
  command.app->add_option("--by", *by, "Rows for every layer")->check(CLI::IsMember({"layer"}));
  return command;
}

}  // namespace omni::perf

int main(int argc, char** argv) {
  omni::end_in_order_on_exceptions();
  omni::make_writes_fail();
  return omni::exit_code_of(omni::perf::run, argc, argv);
}
