#include "perf/analysis/models.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "perf/analysis/iterations.hpp"
#include "perf/common/statistics.hpp"
#include "perf/common/task_class.hpp"

namespace omni::perf {
namespace {

constexpr std::size_t kShown = 10;
constexpr std::size_t kSmallestClass = 8;
constexpr double kMads = 5;
constexpr double kSmallestMad = 0.01;  // of the median

// Keeps the tasks that are farthest off in seconds.
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

// A task without length has no relative error.
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

Models analyse_models(const Trace& trace) {
  Models models;
  const KindIndex kinds(trace);
  predictions(trace, kinds, models);
  find_outliers(trace, kinds, models);
  return models;
}

}  // namespace omni::perf
