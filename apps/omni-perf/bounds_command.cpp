// omni-perf bounds: how fast the same tasks could have run at best.
#include <fmt/format.h>

#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/bounds.hpp"

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
      {"wall", "wall", Format::seconds, bounds.wall},
      {"area_bound", "area bound", Format::seconds, bounds.area},
      {"critical_path_bound", "critical-path bound", Format::seconds, bounds.critical_path},
      {"efficiency", "reached", Format::share, bounds.efficiency()},
      {"classes", "", Format::count, count_cell(bounds.classes)},
      {"classes_on_one_kind", "", Format::count, count_cell(bounds.classes_on_one_kind)}};
  Table kinds{.key = "kinds",
              .columns = {column::text("kind", "kind of worker"), column::count("workers"),
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

}  // namespace

Command bounds_command(CLI::App& parent) {
  return trace_command(parent, "bounds", "How fast the same tasks could have run at best",
                       kBoundsJson, describe_bounds);
}

}  // namespace omni::perf
