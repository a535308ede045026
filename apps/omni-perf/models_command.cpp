// omni-perf models: predicted against actual times, and unusual tasks.
#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/models.hpp"

namespace omni::perf {
namespace {

constexpr const char* kModelsJson =
    R"(  {"mape","without_prediction","outlier_count","outlier_seconds",
   "models":[{"codelet","implementation","kind","tasks","predicted","mape","bias"}],
   "worst":[{"task","codelet","implementation","worker","layer","iteration","predicted","actual"}],
   "outliers":[{"task","codelet","implementation","worker","layer","iteration","median","actual",
    "mads"}]}
mape: mean of |predicted - actual| / actual; bias: the same with its sign; both 0.1 for 10 %.
worst: the ten tasks with the largest |predicted - actual|. outliers: more than 5 median absolute
deviations off the median of their codelet, layer, implementation and kind of worker (at least 8
tasks); the ten farthest off, of outlier_count, which took outlier_seconds more than the median.)";

std::vector<Cell> cells_of(const Trace& trace, const OddTask& odd) {
  const Task& task = trace.tasks[odd.task];
  return {count_cell(task.id),
          trace.codelet_name(task),
          trace.implementation_name(task),
          trace.workers[task.worker].name,
          std::int64_t{task.layer},
          task.iteration,
          odd.expected,
          odd.actual};
}

Table table_of_tasks(const char* key, const char* title, Column expected) {
  return {
      .key = key,
      .title = title,
      .columns = {column::count("task"), column::text("codelet"), column::text("implementation"),
                  column::text("worker"), column::count("layer"), column::count("iteration"),
                  std::move(expected), column::seconds("actual")}};
}

Document describe_models(const Trace& trace) {
  const Models models = analyse_models(trace);
  Document document;
  document.facts = {
      {"mape", "mean error", Format::share, models.mape},
      {"without_prediction", "without prediction", Format::share, models.without_prediction},
      {"outlier_count", "outliers", Format::count, count_cell(models.outlier_count)},
      {"outlier_seconds", "  beyond the median", Format::seconds, models.outlier_seconds}};
  Table rows{.key = "models",
             .columns = {column::text("codelet"), column::text("implementation"),
                         column::text("kind", "worker"), column::count("tasks"),
                         column::count("predicted"), column::share("mape", "mean error"),
                         column::share("bias")}};
  for (const ModelRow& row : models.rows) {
    const bool any = row.predicted > 0;
    rows.rows.push_back({row.codelet, row.implementation, row.kind, count_cell(row.tasks),
                         count_cell(row.predicted), any ? row.mape : kUnknown,
                         any ? row.bias : kUnknown});
  }
  Table worst =
      table_of_tasks("worst", "Farthest from their prediction", column::seconds("predicted"));
  for (const OddTask& odd : models.worst) worst.rows.push_back(cells_of(trace, odd));
  Table outliers = table_of_tasks("outliers", "Farthest from the median of their like",
                                  column::seconds("median"));
  outliers.columns.push_back(column::number("mads", "MADs"));
  for (const OddTask& odd : models.outliers) {
    outliers.rows.push_back(cells_of(trace, odd));
    outliers.rows.back().push_back(odd.mads);
  }
  document.tables = {std::move(rows), std::move(worst), std::move(outliers)};
  return document;
}

}  // namespace

Command models_command(CLI::App& parent) {
  return trace_command(parent, "models", "Predicted against actual times, and unusual tasks",
                       kModelsJson, describe_models);
}

}  // namespace omni::perf
