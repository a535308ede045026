#include "perf/report/html_report.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "perf/analysis/bounds.hpp"
#include "perf/analysis/critical_path.hpp"
#include "perf/analysis/idle.hpp"
#include "perf/analysis/iterations.hpp"
#include "perf/analysis/kernels.hpp"
#include "perf/analysis/staleness.hpp"
#include "perf/analysis/summary.hpp"
#include "perf/analysis/transfers.hpp"
#include "perf/report/packed_column.hpp"
#include "perf/report/page.hpp"
#include "runtime/json_text.hpp"

// The JSON of these records has all their members.
namespace omni::trace {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Header, rank, started, host, command, starpu, scheduler, net,
                                   batch)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Codelet, name, color, implementations)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Peak, what, kind, per_worker, together)
}  // namespace omni::trace

namespace omni::perf {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Worker, name, kind, rank, node)
namespace {

using PageJson = nlohmann::json;

// Columns are packed columns by name. Columns whose names end in + hold differences to the row
// before.
class Columns {
 public:
  Columns(std::initializer_list<std::string_view> names) : names_(names), columns_(names.size()) {}

  void add(std::initializer_list<std::int64_t> row) {
    auto name = names_.begin();
    auto column = columns_.begin();
    for (const std::int64_t value : row)
      name++->ends_with('+') ? column++->add_delta(value) : column++->add(value);
  }
  PageJson json() const {
    PageJson json = PageJson::object();
    for (std::size_t i = 0; i < names_.size(); ++i)
      json[std::string(names_[i].substr(0, names_[i].find('+')))] = columns_[i].text();
    return json;
  }

 private:
  std::vector<std::string_view> names_;
  std::vector<PackedColumn> columns_;
};

// Writes tasks in the order of the trace. A time is the difference to the time before it in the
// task's life.
PageJson tasks(const Trace& trace, const Dependencies& dependencies) {
  Columns columns{"kind",  "worker",    "slice",     "group",       "iteration+", "submitted+",
                  "ready", "pop_start", "popped",    "fetch_start", "fetch_end",  "start",
                  "end",   "released",  "predicted", "waits"};
  PackedColumn before;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::int32_t, double, double, std::int32_t>,
           int>
      kinds;
  PageJson table = PageJson::array();
  for (std::size_t i = 0; i < trace.tasks.size(); ++i) {
    const Task& task = trace.tasks[i];
    const auto [found, fresh] = kinds.try_emplace(
        {task.codelet, task.implementation, task.layer, task.flops, task.bytes, task.eligible},
        static_cast<int>(kinds.size()));
    if (fresh)
      table.push_back(
          {task.codelet, task.implementation, task.layer, task.flops, task.bytes, task.eligible});
    const std::vector<std::uint32_t> others = dependencies.of(i);
    const trace::TaskTimes& t = task.times;
    columns.add({found->second, task.worker, task.slice, task.group, task.iteration,
                 t.submitted - trace.begin, t.ready - t.submitted, t.pop_start - t.ready,
                 t.popped - t.pop_start, t.fetch_start - t.popped, t.fetch_end - t.fetch_start,
                 t.start - t.fetch_end, t.end - t.start, t.released - t.end,
                 std::isfinite(task.predicted) ? std::llround(task.predicted) : -1,
                 static_cast<std::int64_t>(others.size())});
    for (const std::uint32_t other : others) before.add(static_cast<std::int64_t>(i) - other);
  }
  PageJson json = columns.json();
  json["count"] = trace.tasks.size();
  json["kinds"] = std::move(table);
  json["before"] = before.text();
  return json;
}

PageJson what_ran(const Trace& trace) {
  PageJson json{{"complete", trace.complete}, {"wall", trace.end - trace.begin},
                {"headers", trace.headers},   {"workers", trace.workers},
                {"codelets", trace.codelets}, {"eligible", trace.eligible},
                {"layers", PageJson::array()}};
  for (std::size_t i = 0; i < trace.layers.size(); ++i)
    json["layers"].push_back(layer_name(trace, static_cast<std::int32_t>(i)));
  return json;
}

PageJson iterations(const Trace& trace) {
  Columns columns{"rank", "iteration+", "at+"};
  for (const trace::IterationStart& start : trace.iterations)
    columns.add({start.rank, start.iteration, start.at - trace.begin});
  const Iterations found = analyse_iterations(trace);
  PageJson json = columns.json();
  json["count"] = found.times.size();
  json["median"] = found.spread.median;
  json["images_per_second"] = found.images_per_second;
  return json;
}

PageJson waits(const Trace& trace) {
  Columns columns{"rank", "all", "from+", "length"};
  for (const trace::Wait& wait : trace.waits)
    columns.add({wait.rank, wait.for_all, wait.from - trace.begin, wait.to - wait.from});
  return columns.json();
}

PageJson transfers(const Trace& trace) {
  Columns columns{"rank", "from_rank", "from_node", "to_node", "bytes", "count", "from+", "length"};
  for (const trace::Transfer& each : trace.transfers)
    columns.add({each.rank, each.from_rank, each.from_node, each.to_node,
                 static_cast<std::int64_t>(each.bytes), static_cast<std::int64_t>(each.count),
                 each.from - trace.begin, each.to - each.from});
  return columns.json();
}

PageJson messages(const Trace& trace) {
  PageJson json = PageJson::array();
  for (const Link& link : analyse_transfers(trace).links)
    if (link.from_rank >= 0)
      json.push_back({{"rank", link.rank},
                      {"from_rank", link.from_rank},
                      {"count", link.count},
                      {"bytes", link.bytes},
                      {"busy", link.busy},
                      {"hidden", link.overlapped}});
  return json;
}

PageJson counters(const Trace& trace) {
  struct Series {
    PackedColumn at;
    PageJson values = PageJson::array();
  };
  std::map<std::pair<std::string, std::int32_t>, Series> series;
  for (const trace::Counter& counter : trace.counters) {
    Series& one = series[{counter.name, counter.rank}];
    one.at.add_delta(counter.at - trace.begin);
    one.values.push_back(counter.value);
  }
  PageJson json = PageJson::array();
  for (auto& [key, one] : series)
    json.push_back({{"name", key.first},
                    {"rank", key.second},
                    {"at", one.at.text()},
                    {"values", std::move(one.values)}});
  return json;
}

PageJson idle(const Trace& trace) {
  const Idle found = analyse_idle(trace);
  PageJson json{{"parts", kPartNames}, {"share", found.share}, {"workers", PageJson::array()}};
  for (const WorkerTime& worker : found.workers)
    json["workers"].push_back({{"parts", worker.parts}, {"tasks", worker.tasks}});
  return json;
}

PageJson kernels(const Trace& trace) {
  PageJson json = PageJson::array();
  for (const KernelRow& row : analyse_kernels(trace).rows)
    json.push_back({{"codelet", row.codelet},
                    {"implementation", row.implementation},
                    {"kind", row.kind},
                    {"count", row.seconds.count},
                    {"total", row.seconds.total},
                    {"median", row.seconds.median},
                    {"mad", row.seconds.mad},
                    {"max", row.seconds.max},
                    {"share", row.share},
                    {"gflops", row.gflops()},
                    {"gbytes", row.gbytes()}});
  return json;
}

PageJson roofline(const Trace& trace) {
  const Roofline found = analyse_roofline(trace);
  PageJson rows = PageJson::array();
  for (const RooflineRow& row : found.rows)
    rows.push_back({{"codelet", row.codelet},
                    {"implementation", row.implementation},
                    {"kind", row.kind},
                    {"seconds", row.seconds.total},
                    {"flops", row.flops},
                    {"intensity", row.intensity},
                    {"attained", row.attained},
                    {"roof", row.roof},
                    {"fraction", row.fraction},
                    {"bound", row.bound},
                    {"lost", row.lost}});
  return {{"peaks", found.peaks}, {"rows", rows}};
}

PageJson staleness(const Trace& trace) {
  const Async found = analyse_async(trace);
  PageJson json{{"exchanges", found.all.exchanges},
                {"meetings", found.meetings},
                {"mean", found.all.mean},
                {"expected", found.expected},
                {"max", found.all.max},
                {"groups", PageJson::array()},
                {"histogram", PageJson::array()}};
  for (const GroupStaleness& group : found.groups)
    json["groups"].push_back({{"group", group.group},
                              {"exchanges", group.staleness.exchanges},
                              {"share", group.share},
                              {"mean", group.staleness.mean},
                              {"expected", group.expected},
                              {"max", group.staleness.max}});
  for (const auto& [staleness, exchanges] : found.all.histogram)
    json["histogram"].push_back({staleness, exchanges});
  return json;
}

PageJson limits(const Trace& trace, const Dependencies& dependencies) {
  const Bounds found = analyse_bounds(trace, dependencies);
  PackedColumn path;
  for (const std::uint32_t task : longest_path(trace, dependencies)) path.add_delta(task);
  return {{"area", found.area},
          {"critical_path", found.critical_path},
          {"efficiency", found.efficiency()},
          {"path", path.text()}};
}

// Writes the data that perf/report/page/decode.js reads.
PageJson page_data(const Trace& trace, const Dependencies& dependencies,
                   const std::vector<MetricsLine>& metrics) {
  PageJson json = what_ran(trace);
  json["tasks"] = tasks(trace, dependencies);
  json["iterations"] = iterations(trace);
  json["waits"] = waits(trace);
  json["transfers"] = transfers(trace);
  json["messages"] = messages(trace);
  json["counters"] = counters(trace);
  json["idle"] = idle(trace);
  json["kernels"] = kernels(trace);
  json["roofline"] = roofline(trace);
  json["staleness"] = staleness(trace);
  json["limits"] = limits(trace, dependencies);
  json["metrics"] = curves(metrics, 10'000);
  return json;
}

}  // namespace

std::string html_report(const Trace& trace, const Dependencies& dependencies,
                        const std::vector<MetricsLine>& metrics) {
  return filled_page(kPageTemplate, json_text(page_data(trace, dependencies, metrics)),
                     kPageScript);
}

}  // namespace omni::perf
