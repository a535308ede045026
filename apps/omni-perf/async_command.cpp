// omni-perf async: how stale the gradients were.
#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/async.hpp"

namespace omni::perf {
namespace {

constexpr const char* kAsyncJson = R"(  {"exchanges","staleness":{"mean","max"},
   "groups":[{"group","exchanges","iterations","mean","max"}],
   "histogram":[{"group","staleness","exchanges"}],
   "iterations":[{"iteration","exchanges","mean","max"}]}
staleness: updates by other groups between taking the parameters and handing in the gradient.)";

Document describe_async(const Trace& trace) {
  const Async async = analyse_async(trace);
  Document document;
  document.facts = {{"exchanges", "exchanges", Format::count, count_cell(async.all.exchanges)},
                    {"staleness.mean", "staleness, mean", Format::number, async.all.mean},
                    {"staleness.max", "staleness, max", Format::count, async.all.max}};
  Table groups{.key = "groups",
               .columns = {{"group", "group", Format::count},
                           {"exchanges", "exchanges", Format::count},
                           {"iterations", "iterations", Format::count},
                           {"mean", "staleness, mean", Format::number},
                           {"max", "max", Format::count}}};
  Table histogram{.key = "histogram",
                  .title = "Exchanges by staleness",
                  .columns = {{"group", "group", Format::count},
                              {"staleness", "staleness", Format::count},
                              {"exchanges", "exchanges", Format::count}},
                  .shown = 40};
  for (const GroupStaleness& group : async.groups) {
    const Staleness& staleness = group.staleness;
    groups.rows.push_back({std::int64_t{group.group}, count_cell(staleness.exchanges),
                           count_cell(group.iterations), staleness.mean, staleness.max});
    for (const auto& [value, count] : staleness.histogram)
      histogram.rows.push_back({std::int64_t{group.group}, value, count_cell(count)});
  }
  Table iterations{.key = "iterations",
                   .title = "By iteration",
                   .columns = {{"iteration", "iteration", Format::count},
                               {"exchanges", "exchanges", Format::count},
                               {"mean", "staleness, mean", Format::number},
                               {"max", "max", Format::count}},
                   .shown = 10};
  for (const IterationStaleness& row : async.iterations)
    iterations.rows.push_back({row.iteration, count_cell(row.exchanges), row.mean, row.max});
  document.tables = {std::move(groups), std::move(histogram), std::move(iterations)};
  return document;
}

}  // namespace

Command async_command(CLI::App& parent) {
  return trace_command(parent, "async", "How stale the groups' gradients were", kAsyncJson,
                       describe_async);
}

}  // namespace omni::perf
