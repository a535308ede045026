// omni-perf export: a trace in the format of another program.
#include <memory>
#include <string>

#include "apps/omni-perf/commands.hpp"
#include "perf/report/chrome_export.hpp"

namespace omni::perf {

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
