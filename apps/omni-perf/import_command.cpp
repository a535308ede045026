// omni-perf import: a trace out of what starpu_fxt_tool writes.

#include <memory>

#include "apps/omni-perf/commands.hpp"
#include "perf/trace/fxt_import.hpp"
#include "runtime/files.hpp"

namespace omni::perf {
namespace {

constexpr const char* kImportFooter =
    R"(Run any StarPU program with STARPU_FXT_TRACE=1, then
  starpu_fxt_tool -i /tmp/prof_file_... -d FOLDER
  omni-perf import FOLDER TRACE
tasks.rec says nothing about fetching data, predictions and the submitting thread. A task is taken
to be ready when the tasks are done that it depends on; what passes until it starts is scheduling.
JSON: {"complete","tasks","processes","left_out"}; left_out: tasks that no worker ran.)";

struct ImportArguments {
  std::string from, to;
  Output output;
};

Result<int> run_import(const ImportArguments& arguments) {
  OMNI_CHECK(require_there(arguments.from));
  OMNI_TRY(const Imported imported, import_fxt(arguments.from, arguments.to));
  Document document;
  document.facts = {{"tasks", "tasks", Format::count, count_cell(imported.tasks)},
                    {"processes", "processes", Format::count, count_cell(imported.ranks)},
                    {"left_out", "left out, as no worker ran them", Format::count,
                     count_cell(imported.left_out)}};
  OMNI_CHECK(write(document, arguments.output, true));
  return 0;
}

}  // namespace

Command import_command(CLI::App& parent) {
  const auto arguments = std::make_shared<ImportArguments>();
  CLI::App* app = parent.add_subcommand("import", "A trace out of what starpu_fxt_tool writes");
  app->add_option("from", arguments->from, "tasks.rec, or its folder")->required();
  app->add_option("to", arguments->to, "Folder for the trace; made if missing")->required();
  add_output(*app, arguments->output);
  app->footer(kImportFooter);
  return {.app = app, .run = [arguments] { return run_import(*arguments); }};
}

}  // namespace omni::perf
