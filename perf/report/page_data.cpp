#include "perf/report/page_data.hpp"

#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "perf/analysis/async.hpp"
#include "perf/analysis/bounds.hpp"
#include "perf/analysis/critical_path.hpp"
#include "perf/analysis/idle.hpp"
#include "perf/analysis/iterations.hpp"
#include "perf/analysis/kernels.hpp"
#include "perf/analysis/roofline.hpp"
#include "perf/report/columns.hpp"

namespace omni::perf {
namespace {

using Json = nlohmann::ordered_json;

// Tasks in the order of the trace. Every time is relative to the one before it in a task's life.
Json tasks(const Trace& trace, const Dependencies& dependencies) {
  Column kind, worker, slice, group, iteration, predicted, waits, before;
  Column submitted, ready, pop_start, popped, fetch_start, fetch_end, start, end, released;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::int32_t, double, double>, int> kinds;
  Json table = Json::array();
  for (std::size_t i = 0; i < trace.tasks.size(); ++i) {
    const Task& task = trace.tasks[i];
    const auto [found, fresh] =
        kinds.try_emplace({task.codelet, task.implementation, task.layer, task.flops, task.bytes},
                          static_cast<int>(kinds.size()));
    if (fresh)
      table.push_back({task.codelet, task.implementation, task.layer, task.flops, task.bytes});
    kind.add(found->second);
    worker.add(task.worker);
    slice.add(task.slice);
    group.add(task.group);
    iteration.add_delta(task.iteration);
    const trace::TaskTimes& t = task.times;
    submitted.add_delta(t.submitted - trace.begin);
    ready.add(t.ready - t.submitted);
    pop_start.add(t.pop_start - t.ready);
    popped.add(t.popped - t.pop_start);
    fetch_start.add(t.fetch_start - t.popped);
    fetch_end.add(t.fetch_end - t.fetch_start);
    start.add(t.start - t.fetch_end);
    end.add(t.end - t.start);
    released.add(t.released - t.end);
    predicted.add(std::isfinite(task.predicted) ? std::llround(task.predicted) : -1);
    const std::vector<std::uint32_t> others = dependencies.of(i);
    waits.add(static_cast<std::int64_t>(others.size()));
    for (const std::uint32_t other : others) before.add(static_cast<std::int64_t>(i) - other);
  }
  return {{"count", trace.tasks.size()},
          {"kinds", table},
          {"kind", kind.text()},
          {"worker", worker.text()},
          {"slice", slice.text()},
          {"group", group.text()},
          {"iteration", iteration.text()},
          {"submitted", submitted.text()},
          {"ready", ready.text()},
          {"pop_start", pop_start.text()},
          {"popped", popped.text()},
          {"fetch_start", fetch_start.text()},
          {"fetch_end", fetch_end.text()},
          {"start", start.text()},
          {"end", end.text()},
          {"released", released.text()},
          {"predicted", predicted.text()},
          {"waits", waits.text()},
          {"before", before.text()}};
}

Json what_ran(const Trace& trace) {
  Json json{{"complete", trace.complete}, {"wall", trace.end - trace.begin}};
  for (const trace::Header& header : trace.headers)
    json["headers"].push_back({{"rank", header.rank},
                               {"started", header.started},
                               {"host", header.host},
                               {"command", header.command},
                               {"starpu", header.starpu},
                               {"scheduler", header.scheduler},
                               {"net", header.net},
                               {"batch", header.batch}});
  json["workers"] = Json::array();
  for (const Worker& worker : trace.workers)
    json["workers"].push_back({{"name", worker.name},
                               {"kind", worker.kind},
                               {"rank", worker.rank},
                               {"node", worker.node}});
  json["codelets"] = Json::array();
  for (const trace::Codelet& codelet : trace.codelets)
    json["codelets"].push_back({{"name", codelet.name},
                                {"color", codelet.color},
                                {"implementations", codelet.implementations}});
  json["layers"] = Json::array();
  for (std::size_t i = 0; i < trace.layers.size(); ++i)
    json["layers"].push_back(layer_name(trace, static_cast<std::int32_t>(i)));
  return json;
}

Json iterations(const Trace& trace) {
  Column rank, iteration, at;
  for (const trace::IterationStart& start : trace.iterations) {
    rank.add(start.rank);
    iteration.add_delta(start.iteration);
    at.add_delta(start.at - trace.begin);
  }
  const Iterations found = analyse_iterations(trace);
  return {{"rank", rank.text()},
          {"iteration", iteration.text()},
          {"at", at.text()},
          {"count", found.times.size()},
          {"median", found.spread.median},
          {"images_per_second", found.images_per_second}};
}

Json waits(const Trace& trace) {
  Column rank, all, from, length;
  for (const trace::Wait& wait : trace.waits) {
    rank.add(wait.rank);
    all.add(wait.for_all ? 1 : 0);
    from.add_delta(wait.from - trace.begin);
    length.add(wait.to - wait.from);
  }
  return {
      {"rank", rank.text()}, {"all", all.text()}, {"from", from.text()}, {"length", length.text()}};
}

Json transfers(const Trace& trace) {
  Column rank, from_node, to_node, bytes, count, from, length;
  for (const trace::Transfer& transfer : trace.transfers) {
    rank.add(transfer.rank);
    from_node.add(transfer.from_node);
    to_node.add(transfer.to_node);
    bytes.add(static_cast<std::int64_t>(transfer.bytes));
    count.add(static_cast<std::int64_t>(transfer.count));
    from.add_delta(transfer.from - trace.begin);
    length.add(transfer.to - transfer.from);
  }
  return {{"rank", rank.text()},    {"from_node", from_node.text()}, {"to_node", to_node.text()},
          {"bytes", bytes.text()},  {"count", count.text()},         {"from", from.text()},
          {"length", length.text()}};
}

Json counters(const Trace& trace) {
  struct Series {
    Column at;
    Json values = Json::array();
  };
  std::map<std::pair<std::string, std::int32_t>, Series> series;
  for (const trace::Counter& counter : trace.counters) {
    Series& one = series[{counter.name, counter.rank}];
    one.at.add_delta(counter.at - trace.begin);
    one.values.push_back(counter.value);
  }
  Json json = Json::array();
  for (auto& [key, one] : series)
    json.push_back({{"name", key.first},
                    {"rank", key.second},
                    {"at", one.at.text()},
                    {"values", std::move(one.values)}});
  return json;
}

Json idle(const Trace& trace) {
  const Idle found = analyse_idle(trace);
  Json json{{"parts", kPartNames}, {"share", found.share}, {"workers", Json::array()}};
  for (const WorkerTime& worker : found.workers)
    json["workers"].push_back({{"parts", worker.parts}, {"tasks", worker.tasks}});
  return json;
}

Json kernels(const Trace& trace) {
  Json json = Json::array();
  for (const KernelRow& row : analyse_kernels(trace).rows)
    json.push_back({{"codelet", row.codelet_name},
                    {"implementation", row.implementation_name},
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

Json roofline(const Trace& trace) {
  const Roofline found = analyse_roofline(trace);
  Json json{{"peaks", Json::array()}, {"rows", Json::array()}};
  for (const trace::Peak& peak : found.peaks)
    json["peaks"].push_back({{"what", peak.what},
                             {"kind", peak.kind},
                             {"per_worker", peak.per_worker},
                             {"together", peak.together}});
  for (const RooflineRow& row : found.rows)
    json["rows"].push_back({{"codelet", row.codelet},
                            {"implementation", row.implementation},
                            {"kind", row.kind},
                            {"seconds", row.seconds},
                            {"flops", row.flops},
                            {"intensity", row.intensity},
                            {"attained", row.attained},
                            {"roof", row.roof},
                            {"fraction", row.fraction},
                            {"bound", row.bound},
                            {"lost", row.lost}});
  return json;
}

Json staleness(const Trace& trace) {
  const Async found = analyse_async(trace);
  Json json{{"exchanges", found.all.exchanges},
            {"mean", found.all.mean},
            {"max", found.all.max},
            {"histogram", Json::array()}};
  for (const auto& [staleness, exchanges] : found.all.histogram)
    json["histogram"].push_back({staleness, exchanges});
  return json;
}

Json limits(const Trace& trace, const Dependencies& dependencies) {
  const Bounds found = analyse_bounds(trace, dependencies);
  Column path;
  for (const std::uint32_t task : longest_path(trace, dependencies)) path.add_delta(task);
  return {{"area", found.area},
          {"critical_path", found.critical_path},
          {"efficiency", found.efficiency()},
          {"path", path.text()}};
}

// Only as many lines as a curve has use for.
Json curves(const std::vector<MetricsLine>& lines) {
  constexpr std::size_t kLines = 10'000;
  const std::size_t step = lines.size() / kLines + 1;
  Json json = Json::array();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const MetricsLine& line = lines[i];
    const bool evaluation = !std::isnan(line.test_loss) || !std::isnan(line.test_accuracy);
    if (i % step != 0 && !evaluation) continue;
    json.push_back({line.iteration, line.seconds, line.loss, line.loss_average, line.accuracy,
                    line.images_per_second, line.test_loss, line.test_accuracy});
  }
  return {{"every", step}, {"lines", json}};
}

}  // namespace

Json page_data(const Trace& trace, const Dependencies& dependencies,
               const std::vector<MetricsLine>& metrics) {
  Json json = what_ran(trace);
  json["tasks"] = tasks(trace, dependencies);
  json["iterations"] = iterations(trace);
  json["waits"] = waits(trace);
  json["transfers"] = transfers(trace);
  json["counters"] = counters(trace);
  json["idle"] = idle(trace);
  json["kernels"] = kernels(trace);
  json["roofline"] = roofline(trace);
  json["staleness"] = staleness(trace);
  json["limits"] = limits(trace, dependencies);
  json["metrics"] = curves(metrics);
  return json;
}

}  // namespace omni::perf
