// omni-perf: reads traces and says where the time went.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

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
  app.footer(kFooter);
  app.set_version_flag("--version", fmt::format("omni-perf {}", kVersion));
  app.require_subcommand(1);
  const Command commands[] = {
      summary_command(app), idle_command(app),     kernels_command(app), critical_path_command(app),
      bounds_command(app),  roofline_command(app), models_command(app),  transfers_command(app),
      async_command(app),   memory_command(app),   diff_command(app),    import_command(app),
      report_command(app),  export_command(app)};
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
  try {
    const int code = omni::perf::run(argc, argv);
    // Results that did not reach their file are no success.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      omni::log::error("cannot write the results to stdout");
      return code == omni::kSuccess ? omni::exit_code(omni::ErrorKind::failed) : code;
    }
    return code;
  } catch (const std::bad_alloc&) {
    omni::log::error("out of memory");
    return omni::exit_code(omni::ErrorKind::out_of_memory);
  } catch (const std::exception& problem) {
    omni::log::error("{}", problem.what());
    return omni::exit_code(omni::ErrorKind::failed);
  }
}
