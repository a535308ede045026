// omni-perf report: a trace as one HTML file.
#include <memory>
#include <string>

#include "apps/omni-perf/commands.hpp"
#include "perf/report/html_report.hpp"

namespace omni::perf {

Command report_command(CLI::App& parent) {
  struct Arguments {
    std::string trace, html, metrics;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* app = parent.add_subcommand("report", "Everything on one page, for a browser");
  app->add_option("trace", arguments->trace, "Folder of a trace, or one of its files")->required();
  app->add_option("--html", arguments->html, "The file to write; it needs nothing beside it")
      ->required();
  app->add_option("--metrics", arguments->metrics,
                  "What omni-run --metrics wrote: adds loss, accuracy and throughput");
  return {
      .app = app, .run = [arguments]() -> Result<int> {
        OMNI_CHECK(check_output("--html", arguments->html, arguments->trace, {arguments->metrics}));
        OMNI_TRY(const Trace trace, open_trace(arguments->trace));
        std::vector<MetricsLine> metrics;
        if (!arguments->metrics.empty()) {
          OMNI_TRY(metrics, read_metrics(arguments->metrics));
        }
        OMNI_CHECK(write_html_report(trace, Dependencies(trace), metrics, arguments->html));
        return 0;
      }};
}

}  // namespace omni::perf
