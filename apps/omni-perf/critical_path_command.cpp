// omni-perf critical-path: the longest chain of tasks, and what a faster codelet would give.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/critical_path.hpp"
#include "perf/common/statistics.hpp"

namespace omni::perf {
namespace {

constexpr const char* kCriticalPathJson = R"(  {"wall","length","replayed","factor",
   "codelets":[{"codelet","tasks","seconds","share"}],   on the path; share of its length
   "what_if":[{"codelet","wall","saved","speedup"}],     with it `factor` times as fast
   "path":[{"task","codelet","worker","layer","iteration","start","end"}]}
The replay keeps the order of tasks on each worker, their overheads, and the pace of submission.
It leaves out the time from when a task is ready until its worker asks for it. So "replayed", the
replay with nothing faster, is shorter than "wall"; the nearer it is, the more the replay can be
trusted. "saved" and "speedup" compare with "replayed".)";

struct CriticalPathArguments {
  double factor = 2;
  std::vector<std::string> codelets;
};

Result<Document> describe_critical_path(const Trace& trace,
                                        const CriticalPathArguments& arguments) {
  for (const std::string& name : arguments.codelets)
    if (std::ranges::none_of(trace.codelets,
                             [&](const trace::Codelet& codelet) { return codelet.name == name; }))
      return Error{ErrorKind::usage, "--codelet", "the trace has no codelet " + name,
                   "omni-perf kernels lists them"};
  const Dependencies dependencies(trace);
  const CriticalPath path =
      analyse_critical_path(trace, dependencies, arguments.factor, arguments.codelets);
  Document document;
  document.facts = {{"wall", "wall", Format::seconds, path.wall},
                    {"length", "critical path", Format::seconds, path.length},
                    {"", "  of wall", Format::share, ratio(path.length, path.wall)},
                    {"replayed", "replay of the run", Format::seconds, path.replayed},
                    {"", "  of wall", Format::share, ratio(path.replayed, path.wall)},
                    {"factor", "", Format::number, path.factor}};

  Table codelets{.key = "codelets",
                 .title = "On the critical path",
                 .columns = {column::text("codelet"), column::count("tasks"),
                             column::seconds("seconds", "time"), column::share("share")}};
  for (const PathRow& row : path.rows)
    codelets.rows.push_back(
        {row.codelet, count_cell(row.tasks), row.seconds, ratio(row.seconds, path.length)});
  Table what_if{
      .key = "what_if",
      .title = fmt::format("If one codelet were {:g} times as fast (replay)", path.factor),
      .columns = {column::text("codelet"), column::seconds("wall"), column::seconds("saved"),
                  column::number("speedup")}};
  for (const WhatIf& row : path.what_if)
    what_if.rows.push_back(
        {row.codelet, row.seconds, row.saved, ratio(path.replayed, row.seconds)});
  Table tasks{
      .key = "path",
      .columns = {column::hidden("task"), column::hidden("codelet"), column::hidden("worker"),
                  column::hidden("layer"), column::hidden("iteration"), column::hidden("start"),
                  column::hidden("end")}};
  for (const std::uint32_t index : path.tasks) {
    const Task& task = trace.tasks[index];
    const auto seconds = [&](Nanoseconds at) {
      return static_cast<double>(at - trace.begin) * 1e-9;
    };
    tasks.rows.push_back({count_cell(task.id), trace.codelet_name(task),
                          trace.workers[task.worker].name, std::int64_t{task.layer}, task.iteration,
                          seconds(task.times.start), seconds(task.times.end)});
  }
  document.tables = {std::move(codelets), std::move(what_if), std::move(tasks)};
  return document;
}

}  // namespace

Command critical_path_command(CLI::App& parent) {
  const auto arguments = std::make_shared<CriticalPathArguments>();
  Command command = trace_command(
      parent, "critical-path", "The longest chain of tasks, and what a faster codelet would give",
      kCriticalPathJson,
      [arguments](const Trace& trace) { return describe_critical_path(trace, *arguments); });
  command.app
      ->add_option("--factor", arguments->factor, "<FACTOR> Speed-up of the codelet in the replay")
      ->check(within(1, 1e6))
      ->capture_default_str();
  command.app
      ->add_option(
          "--codelet", arguments->codelets,
          "<NAME> Replay with this codelet faster (may be repeated); default: each of the 12 "
          "codelets with most time")
      ->take_all()
      ->expected(1);
  return command;
}

}  // namespace omni::perf
