// omni-perf bounds shows how fast the same tasks could have run at best. omni-perf critical-path
// shows the longest chain of tasks, and what a faster codelet would give.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/command_line.hpp"
#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/bounds.hpp"
#include "perf/analysis/critical_path.hpp"
#include "perf/common/statistics.hpp"

namespace omni::perf {
namespace {

constexpr const char* kBoundsJson = R"(  {"wall","area_bound","critical_path_bound","efficiency",
   "classes","classes_on_one_kind","kinds":[{"kind","workers","compute","weight"}]}
No schedule of these tasks, with these lengths, is faster than either bound:
  critical_path_bound  the longest chain of dependent tasks, without gaps
  area_bound           all workers busy all the time. With several kinds of workers: the best
                       division of the work, with the mean length of each class of tasks (codelet,
                       layer, cost) on each kind. A class that never ran on a kind counts as unable
                       to run there, so the bound may be too high
efficiency: the larger bound / wall.)";

Document describe_bounds(const Trace& trace) {
  const Dependencies dependencies(trace);
  const Bounds bounds = analyse_bounds(trace, dependencies);
  Document document;
  document.facts = {
      {"wall", "wall time", Format::seconds, bounds.wall},
      {"area_bound", "area bound", Format::seconds, bounds.area},
      {"critical_path_bound", "critical-path bound", Format::seconds, bounds.critical_path},
      {"efficiency", "reached", Format::share, bounds.efficiency()},
      {"classes", "", Format::count, count_cell(bounds.classes)},
      {"classes_on_one_kind", "", Format::count, count_cell(bounds.classes_on_one_kind)}};
  Table kinds{.key = "kinds",
              .columns = {column::text("kind"), column::count("workers"),
                          column::seconds("compute"), column::hidden("weight")}};
  for (const KindArea& kind : bounds.kinds)
    kinds.rows.push_back({kind.kind, count_cell(kind.workers), kind.compute, kind.weight});
  document.tables = {std::move(kinds)};
  if (bounds.classes_on_one_kind > 0)
    document.notes.push_back(
        fmt::format("{} of {} classes of tasks ran on one kind of worker only; the bounds assume "
                    "that no other kind can run them",
                    bounds.classes_on_one_kind, bounds.classes));
  return document;
}

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
  document.facts = {{"wall", "wall time", Format::seconds, path.wall},
                    {"length", "critical path", Format::seconds, path.length},
                    {"", "  of wall time", Format::share, ratio(path.length, path.wall)},
                    {"replayed", "replay of the run", Format::seconds, path.replayed},
                    {"", "  of wall time", Format::share, ratio(path.replayed, path.wall)},
                    {"factor", "", Format::number, path.factor}};

  Table codelets{
      .key = "codelets",
      .title = "On the critical path",
      .columns = {column::text("codelet"), column::count("tasks"),
                  column::seconds("seconds", "total"), column::share("share", "of path")}};
  for (const PathRow& row : path.rows)
    codelets.rows.push_back(
        {row.codelet, count_cell(row.tasks), row.seconds, ratio(row.seconds, path.length)});
  Table what_if{
      .key = "what_if",
      .title = fmt::format("If one codelet were {:g} times as fast (replay)", path.factor),
      .columns = {column::text("codelet"), column::seconds("wall", "wall time"),
                  column::seconds("saved"), column::number("speedup")}};
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
                          trace.workers[task.worker].name, id_cell(task.layer),
                          id_cell(task.iteration), seconds(task.times.start),
                          seconds(task.times.end)});
  }
  document.tables = {std::move(codelets), std::move(what_if), std::move(tasks)};
  return document;
}

}  // namespace

Command bounds_command(CLI::App& parent) {
  return trace_command(parent, "bounds", "How fast the same tasks could have run at best",
                       kBoundsJson, describe_bounds);
}

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
