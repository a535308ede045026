#include "perf/analysis/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "perf/analysis/iterations.hpp"
#include "perf/common/task_class.hpp"

namespace omni::perf {
namespace {

std::vector<trace::Peak> highest(const std::vector<trace::Peak>& all) {
  std::vector<trace::Peak> peaks;
  for (const trace::Peak& peak : all) {
    const auto found = std::ranges::find_if(peaks, [&](const trace::Peak& known) {
      return known.what == peak.what && known.kind == peak.kind;
    });
    if (found == peaks.end())
      peaks.push_back(peak);
    else if (peak.per_worker > found->per_worker)
      *found = peak;
  }
  return peaks;
}

double peak_of(const Roofline& roofline, std::string_view what, std::string_view kind) {
  for (const trace::Peak& peak : roofline.peaks)
    if (peak.what == what && peak.kind == kind) return peak.per_worker;
  return 0;
}

void place(const Roofline& roofline, RooflineRow& row) {
  const double gemm = peak_of(roofline, "gemm", row.kind);
  const double copy = peak_of(roofline, "copy", row.kind);
  row.intensity = row.bytes > 0 ? row.flops / row.bytes : std::numeric_limits<double>::infinity();
  row.attained = ratio(row.flops > 0 ? row.flops : row.bytes, row.seconds.total);
  row.bound = "unknown";
  if (row.flops <= 0 && row.bytes <= 0) return;  // its cost is not stated
  if (row.flops <= 0) {
    row.roof = copy;
    if (copy > 0) row.bound = "memory";
  } else if (gemm > 0 && (copy > 0 || row.bytes <= 0)) {
    const bool memory = row.bytes > 0 && row.intensity * copy < gemm;
    row.roof = memory ? row.intensity * copy : gemm;
    row.bound = memory ? "memory" : "compute";
  }
  if (row.roof <= 0) return;
  row.fraction = row.attained / row.roof;
  row.lost = std::max(0.0, row.seconds.total * (1 - row.fraction));
}

constexpr std::size_t kShown = 10;
constexpr std::size_t kSmallestClass = 8;
constexpr double kMads = 5;
constexpr double kSmallestMad = 0.01;  // of the median

// Keeps the tasks that are farthest off, in time.
void keep_farthest(std::vector<OddTask>& tasks) {
  const auto off = [](const OddTask& task) { return std::abs(task.actual - task.expected); };
  std::ranges::sort(tasks, [&](const OddTask& a, const OddTask& b) {
    return std::pair(-off(a), a.task) < std::pair(-off(b), b.task);
  });
  tasks.resize(std::min(tasks.size(), kShown));
}

using Groups = std::unordered_map<TaskClass, std::vector<std::uint32_t>, TaskClassHash>;

Groups grouped(const Trace& trace, const KindIndex& kinds, bool by_layer) {
  Groups groups;
  for (std::uint32_t i = 0; i < trace.tasks.size(); ++i)
    groups[kinds.class_of(trace.tasks[i], by_layer)].push_back(i);
  return groups;
}

// A task of no length cannot be predicted relatively.
bool has_prediction(const Task& task) { return !std::isnan(task.predicted) && task.length() > 0; }

void predictions(const Trace& trace, const KindIndex& kinds, Models& models) {
  std::vector<std::pair<double, ModelRow>> rows;  // by compute time
  double errors = 0;
  std::size_t predicted = 0;
  for (const auto& [which, tasks] : grouped(trace, kinds, false)) {
    const Task& first = trace.tasks[tasks[0]];
    auto& [compute, row] = rows.emplace_back();
    row.codelet = trace.codelet_name(first);
    row.implementation = trace.implementation_name(first);
    row.kind = trace.workers[first.worker].kind;
    row.tasks = tasks.size();
    double row_errors = 0, bias = 0;
    for (const std::uint32_t index : tasks) {
      const Task& task = trace.tasks[index];
      compute += task.seconds();
      if (!has_prediction(task)) continue;
      ++row.predicted;
      const double expected = task.predicted * 1e-9, actual = task.seconds();
      row_errors += std::abs(expected - actual) / actual;
      bias += (expected - actual) / actual;
      models.worst.push_back({.task = index, .expected = expected, .actual = actual});
      if (models.worst.size() > 4096) keep_farthest(models.worst);
    }
    row.mape = ratio(row_errors, static_cast<double>(row.predicted));
    row.bias = row.predicted > 0 ? bias / static_cast<double>(row.predicted) : 0;
    errors += row_errors;
    predicted += row.predicted;
  }
  keep_farthest(models.worst);
  models.mape = ratio(errors, static_cast<double>(predicted));
  models.without_prediction = ratio(static_cast<double>(trace.tasks.size() - predicted),
                                    static_cast<double>(trace.tasks.size()));
  std::ranges::sort(rows, [](const auto& a, const auto& b) {
    return std::tie(b.first, a.second.codelet, a.second.implementation, a.second.kind) <
           std::tie(a.first, b.second.codelet, b.second.implementation, b.second.kind);
  });
  for (auto& [compute, row] : rows) models.rows.push_back(std::move(row));
}

void find_outliers(const Trace& trace, const KindIndex& kinds, Models& models) {
  const std::int64_t warm = first_counted(trace);
  for (const auto& [which, tasks] : grouped(trace, kinds, true)) {
    if (tasks.size() < kSmallestClass) continue;
    std::vector<double> seconds;
    for (const std::uint32_t task : tasks) seconds.push_back(trace.tasks[task].seconds());
    const Spread spread = spread_of(std::move(seconds));
    const double mad = std::max(spread.mad, kSmallestMad * spread.median);
    for (const std::uint32_t task : tasks) {
      const double actual = trace.tasks[task].seconds();
      const double off = std::abs(actual - spread.median);
      if (off <= kMads * mad) continue;
      ++models.outlier_count;
      models.outlier_seconds += actual - spread.median;
      const bool is_warm = trace.tasks[task].iteration < 0 || trace.tasks[task].iteration >= warm;
      if (which.layer >= 0 && is_warm && actual > spread.median)
        models.disturbed_seconds += actual - spread.median;
      models.outliers.push_back(
          {.task = task, .expected = spread.median, .actual = actual, .mads = ratio(off, mad)});
      if (models.outliers.size() > 4096) keep_farthest(models.outliers);
    }
  }
  keep_farthest(models.outliers);
}

}  // namespace

std::string layer_name(const Trace& trace, std::int32_t layer) {
  if (layer < 0) return "";
  const trace::Layer& found = trace.layers[layer];
  return fmt::format("{} {}{}{}", layer, found.type, found.detail.empty() ? "" : " ", found.detail);
}

Kernels analyse_kernels(const Trace& trace, bool by_layer) {
  Kernels result;
  const KindIndex kinds(trace);
  std::unordered_map<TaskClass, std::size_t, TaskClassHash> places;
  std::vector<std::vector<double>> seconds;
  for (const Task& task : trace.tasks) {
    const TaskClass which = kinds.class_of(task, by_layer);
    const auto [place, is_new] = places.emplace(which, result.rows.size());
    if (is_new) {
      KernelRow& row = result.rows.emplace_back();
      row.codelet = trace.codelet_name(task);
      row.implementation = trace.implementation_name(task);
      row.kind = trace.workers[task.worker].kind;
      row.layer = layer_name(trace, which.layer);
      seconds.emplace_back();
    }
    seconds[place->second].push_back(task.seconds());
    result.rows[place->second].flops += task.flops;
    result.rows[place->second].bytes += task.bytes;
  }
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    result.rows[i].seconds = spread_of(std::move(seconds[i]));
    result.compute += result.rows[i].seconds.total;
  }
  for (KernelRow& row : result.rows) row.share = ratio(row.seconds.total, result.compute);
  std::ranges::stable_sort(result.rows, std::ranges::greater(),
                           [](const KernelRow& row) { return row.seconds.total; });
  return result;
}

Roofline analyse_roofline(const Trace& trace, bool by_layer) {
  Roofline result;
  result.peaks = highest(trace.peaks);
  for (KernelRow& kernel : analyse_kernels(trace, by_layer).rows) {
    static_cast<KernelRow&>(result.rows.emplace_back()) = std::move(kernel);
    place(result, result.rows.back());
  }
  std::ranges::stable_sort(result.rows, std::ranges::greater(), &RooflineRow::lost);
  return result;
}

Models analyse_models(const Trace& trace) {
  Models models;
  const KindIndex kinds(trace);
  predictions(trace, kinds, models);
  find_outliers(trace, kinds, models);
  return models;
}

}  // namespace omni::perf
