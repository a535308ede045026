// omni-perf report and export: a trace as one HTML file, or in the format of another program.
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "apps/omni-perf/commands.hpp"
#include "perf/report/chrome_export.hpp"
#include "perf/report/html_report.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"

namespace omni::perf {
namespace {

// Of the file asked for, or else of the one beside the trace, if it is there and of use.
Result<std::vector<MetricsLine>> metrics_of(const std::string& trace, const std::string& asked) {
  if (!asked.empty()) {
    OMNI_CHECK(require_there(asked));
    return read_metrics(asked);
  }
  const std::string beside = metrics_beside(trace);
  std::error_code ignored;
  if (!std::filesystem::exists(beside, ignored)) return std::vector<MetricsLine>();
  auto metrics = read_metrics(beside);
  if (metrics) return metrics;
  log::warn("{}; the page has no curves", metrics.error().message());
  return std::vector<MetricsLine>();
}

}  // namespace

Command report_command(CLI::App& parent) {
  struct Arguments {
    std::string trace, metrics;
    Target html;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* app = parent.add_subcommand("report", "Everything on one page, for a browser");
  app->add_option("trace", arguments->trace, "Folder of a trace, or one of its files")->required();
  add_target(*app, arguments->html, "--html", "HTML file to write; it needs no other file");
  app->add_option("--metrics", arguments->metrics,
                  "<FILE> File of omni-run --metrics, for curves of loss, accuracy and throughput; "
                  "default: metrics.jsonl in the folder of the trace");
  return {.app = app, .run = [arguments]() -> Result<int> {
            OMNI_CHECK(check_target(arguments->html, arguments->trace, {arguments->metrics}));
            OMNI_TRY(const Trace trace, open_trace(arguments->trace));
            OMNI_TRY(const std::vector<MetricsLine> metrics,
                     metrics_of(arguments->trace, arguments->metrics));
            OMNI_CHECK(write_file_atomically(arguments->html.path,
                                             html_report(trace, Dependencies(trace), metrics)));
            say_written(arguments->html);
            return 0;
          }};
}

Command export_command(CLI::App& parent) {
  struct Arguments {
    std::string trace;
    Target chrome;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* app = parent.add_subcommand("export", "A trace for another program");
  app->add_option("trace", arguments->trace, "Folder of a trace, or one of its files")->required();
  add_target(*app, arguments->chrome, "--chrome",
             "File to write, in the Trace Event Format, which Perfetto opens");
  return {.app = app, .run = [arguments]() -> Result<int> {
            OMNI_CHECK(check_target(arguments->chrome, arguments->trace));
            OMNI_TRY(const Trace trace, open_trace(arguments->trace));
            OMNI_CHECK(export_chrome(trace, Dependencies(trace), arguments->chrome.path));
            say_written(arguments->chrome);
            return 0;
          }};
}

}  // namespace omni::perf
