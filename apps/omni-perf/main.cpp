// omni-perf: reads traces and says where the time went.
#include <fmt/format.h>

#include "apps/command_line.hpp"
#include "apps/exit_codes.hpp"
#include "apps/omni-perf/commands.hpp"
#include "apps/version.hpp"
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
}  // namespace omni::perf

int main(int argc, char** argv) {
  omni::make_writes_fail();
  return omni::exit_code_of(omni::perf::run, argc, argv);
}
