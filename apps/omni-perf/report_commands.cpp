// omni-perf report writes a trace as one HTML file. omni-perf export writes it in the format of
// another program. omni-perf import makes a trace of what starpu_fxt_tool writes.
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>

#include "apps/omni-perf/commands.hpp"
#include "apps/output_file.hpp"
#include "perf/report/chrome_export.hpp"
#include "perf/report/html_report.hpp"
#include "perf/trace/fxt_import.hpp"
#include "perf/trace/trace.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/shown_name.hpp"

namespace omni::perf {
namespace {

namespace fs = std::filesystem;

struct FileArguments {
  std::string trace, metrics;
  std::string path;  // to write
  bool force = false;
};

// Returns the metrics file that omni-run writes into the folder of a trace, whether it is there or
// not. For a single file whose name is not that of a recording, returns "".
std::string metrics_beside(const std::string& trace) {
  std::error_code ignored;
  if (fs::is_directory(trace, ignored)) return fs::path(trace) / "metrics.jsonl";
  if (!is_called_like_a_recording(trace)) return "";
  return fs::path(trace).parent_path() / "metrics.jsonl";
}

// Returns the folder in which the run was started, as far as its --trace tells: 'a/run1' lies two
// folders below. Empty: the folder is not known.
fs::path start_of_run(const fs::path& trace, const std::vector<std::string>& command) {
  const fs::path named = fs::path(value_of("--trace", command).value_or("")).lexically_normal();
  if (named.is_absolute() || named.string().starts_with("..")) return {};
  std::error_code ignored;
  const fs::path path = fs::absolute(trace, ignored).lexically_normal();
  fs::path start =
      fs::is_directory(trace, ignored) && path.has_filename() ? path : path.parent_path();
  for (const fs::path& part : named)
    if (!part.empty()) start = start.parent_path();
  return start;
}

// Returns the metrics file that the command of the run names, relative to where the run was
// started, else to the current folder. A run that names one writes none beside its trace.
std::optional<fs::path> metrics_of_command(const std::string& trace, const std::string& line) {
  const std::vector<std::string> command = from_shell(line);
  const std::string named = value_of("--metrics", command).value_or("");
  if (named.empty()) return std::nullopt;
  const fs::path there = start_of_run(trace, command) / named;
  std::error_code ignored;
  return fs::is_regular_file(there, ignored) ? there : fs::path(named);
}

// Reads the file of --metrics; otherwise the one that the run's command names, or the one beside
// the trace. If that one cannot be read, it returns no lines.
Result<std::vector<MetricsLine>> metrics_of(const Trace& trace, const FileArguments& arguments) {
  if (!arguments.metrics.empty()) {
    OMNI_CHECK(require_there(arguments.metrics));
    return read_metrics(arguments.metrics);
  }
  const auto named = metrics_of_command(arguments.trace, trace.headers[0].command);
  const fs::path found = named ? *named : fs::path(metrics_beside(arguments.trace));
  std::error_code ignored;
  if (named && fs::equivalent(arguments.path, found, ignored))
    return Error{ErrorKind::usage, "--html", arguments.path + " is read, and would be lost",
                 "choose a new name"};
  if (!fs::is_regular_file(found, ignored)) {
    if (named)
      log::warn(
          "the run wrote its metrics to {}, which is not there; the page has no curves "
          "(--metrics names the file)",
          shown_name(found.string()));
    return std::vector<MetricsLine>();
  }
  auto metrics = read_metrics(found);
  if (metrics) return metrics;
  log::warn("{}; the page has no curves", metrics.error().message());
  return std::vector<MetricsLine>();
}

// Returns whether this program wrote the file: its pages and exports have "omni-perf", in quotes,
// in their first 512 bytes.
bool is_ours(const fs::path& path) {
  std::string head(512, '\0');
  std::ifstream(path, std::ios::binary).read(head.data(), std::ssize(head));
  return head.find("\"omni-perf\"") != head.npos;
}

// Refuses to write over a file that is read, and over any recording (a run costs more than a page).
// Without --force it also refuses a file that omni-perf did not write.
Status check_target(const FileArguments& arguments, const char* option) {
  const std::string &path = arguments.path, &trace = arguments.trace;
  std::error_code ignored;
  // A link is followed when it is written, so its target counts, too.
  if (is_called_like_a_recording(path) ||
      is_called_like_a_recording(fs::weakly_canonical(path, ignored)))
    return Error{ErrorKind::usage, option,
                 path + " is called like a recording, which would be lost", "choose a new name"};
  OutputFile file{
      .option = option,
      .path = path,
      .read = {arguments.metrics, trace, metrics_beside(trace)},
      .replaceable = [&](const fs::path& there) { return arguments.force || is_ours(there); },
      .foreign = "omni-perf did not write it",
      .hint = "choose a new name, or --force"};
  for (fs::directory_iterator entry(trace, ignored), end; !ignored && entry != end;
       entry.increment(ignored))
    if (is_called_like_a_recording(entry->path())) file.read.push_back(entry->path());
  return check_output(file);
}

// Makes a command that reads one trace and writes one file.
Command file_command(CLI::App& parent, const char* name, const char* purpose,
                     const std::shared_ptr<FileArguments>& arguments, const char* option,
                     const char* help, Status (*fill)(const Trace&, const FileArguments&)) {
  CLI::App* app = parent.add_subcommand(name, purpose);
  app->add_option("trace", arguments->trace, "Folder of a trace, or one of its files")->required();
  app->add_option(option, arguments->path, help)->required();
  app->add_flag("--force", arguments->force, "Replace the file even if omni-perf did not write it");
  return {.app = app, .run = [arguments, option, fill]() -> Result<int> {
            OMNI_CHECK(check_target(*arguments, option));
            OMNI_TRY(const Trace trace, open_trace(arguments->trace));
            OMNI_CHECK(fill(trace, *arguments));
            std::error_code ignored;
            const auto bytes = static_cast<double>(fs::file_size(arguments->path, ignored));
            log::info("wrote {} ({})", arguments->path, shown(bytes, Format::bytes));
            return 0;
          }};
}

constexpr const char* kImportFooter =
    R"(Run any StarPU program with STARPU_FXT_TRACE=1, then
  starpu_fxt_tool -i /tmp/prof_file_... -d FOLDER
  omni-perf import FOLDER TRACE
tasks.rec says nothing about fetching data, predictions and the main thread. A task is taken
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
                    {"processes", "ranks", Format::count, count_cell(imported.ranks)},
                    {"left_out", "left out, as no worker ran them", Format::count,
                     count_cell(imported.left_out)}};
  OMNI_CHECK(write(document, arguments.output, true));
  return 0;
}

}  // namespace

Command report_command(CLI::App& parent) {
  const auto arguments = std::make_shared<FileArguments>();
  Command command = file_command(
      parent, "report", "Everything on one page, for a browser", arguments, "--html",
      "<FILE> HTML file to write; it needs no other file",
      [](const Trace& trace, const FileArguments& given) -> Status {
        OMNI_TRY(const std::vector<MetricsLine> metrics, metrics_of(trace, given));
        return write_file_atomically(given.path, html_report(trace, Dependencies(trace), metrics));
      });
  command.app->add_option(
      "--metrics", arguments->metrics,
      "<FILE> File of omni-run --metrics, for curves of loss, accuracy and throughput; "
      "default: the one that the run's command names, or metrics.jsonl in the folder of the trace");
  return command;
}

Command export_command(CLI::App& parent) {
  return file_command(parent, "export", "A trace for another program",
                      std::make_shared<FileArguments>(), "--chrome",
                      "<FILE> File to write, in the Trace Event Format, which Perfetto opens",
                      [](const Trace& trace, const FileArguments& given) {
                        return export_chrome(trace, Dependencies(trace), given.path);
                      });
}

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
