// omni-perf async: how the groups shared what they learnt.
#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/async.hpp"

namespace omni::perf {
namespace {

constexpr const char* kAsyncJson =
    R"(  {"exchanges","meetings","staleness":{"mean","expected","max"},
   "groups":[{"group","exchanges","share","iterations","mean","expected","max"}],
   "histogram":[{"group","staleness","exchanges"}],
   "iterations":[{"iteration","exchanges","mean","max"}]}
staleness: updates by other groups between taking the parameters and handing in the gradient.
expected:  updates by others for each of the group's own; for all groups, their number less one.
           null where every group has a model of its own, and these meet.)";

Document describe_async(const Trace& trace) {
  const Async async = analyse_async(trace);
  Document document;
  document.facts = {{"exchanges", "exchanges", Format::count, count_cell(async.all.exchanges)},
                    {"meetings", "meetings", Format::count, count_cell(async.meetings)},
                    {"staleness.mean", "staleness, mean", Format::number, async.all.mean},
                    {"staleness.expected", "expected", Format::number, async.expected},
                    {"staleness.max", "staleness, max", Format::count, async.all.max}};
  Table groups{
      .key = "groups",
      .columns = {column::count("group"), column::count("exchanges"), column::share("share"),
                  column::count("iterations"), column::number("mean", "staleness, mean"),
                  column::number("expected"), column::count("max")}};
  Table histogram{
      .key = "histogram",
      .title = "Exchanges by staleness",
      .columns = {column::count("group"), column::count("staleness"), column::count("exchanges")},
      .shown = 40};
  for (const GroupStaleness& group : async.groups) {
    const Staleness& staleness = group.staleness;
    groups.rows.push_back({std::int64_t{group.group}, count_cell(staleness.exchanges), group.share,
                           count_cell(group.iterations), staleness.mean, group.expected,
                           staleness.max});
    for (const auto& [value, count] : staleness.histogram)
      histogram.rows.push_back({std::int64_t{group.group}, value, count_cell(count)});
  }
  Table iterations{.key = "iterations",
                   .title = "By iteration",
                   .columns = {column::count("iteration"), column::count("exchanges"),
                               column::number("mean", "staleness, mean"), column::count("max")},
                   .shown = 10};
  for (const IterationStaleness& row : async.iterations)
    iterations.rows.push_back({row.iteration, count_cell(row.exchanges), row.mean, row.max});
  document.tables = {std::move(groups), std::move(histogram), std::move(iterations)};
  return document;
}

}  // namespace

Command async_command(CLI::App& parent) {
  return trace_command(parent, "async", "Updates and staleness of the groups, and their meetings",
                       kAsyncJson, describe_async);
}

}  // namespace omni::perf
