// This file has omni-perf kernels, roofline and models. They show the time and speed of kernels,
// and compare codelets with the machine's limits and with the predictions.
#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/kernels.hpp"
#include "perf/analysis/models.hpp"

namespace omni::perf {
namespace {

constexpr const char* kKernelsJson =
    R"(  {"compute","kernels":[{"codelet","implementation","kind","layer" (with --by layer),
   "tasks","seconds","share","mean","median","min","max","mad","flops","bytes","flops_per_second",
   "bytes_per_second"}]}
share: of all compute time; mad: median absolute deviation from the median of a task.)";

Document describe_kernels(const Trace& trace, bool by_layer) {
  const Kernels kernels = analyse_kernels(trace, by_layer);
  Table table{.key = "kernels",
              .columns = {column::text("codelet"), column::text("implementation"),
                          column::text("kind"), layer_column(by_layer), column::count("tasks"),
                          column::seconds("seconds", "total"), column::share("share", "of compute"),
                          column::seconds("mean"), column::seconds("median"),
                          column::seconds("min"), column::seconds("max"),
                          column::seconds("mad", "deviation"), column::hidden("flops"),
                          column::hidden("bytes"), column::flops("flops_per_second", "attained"),
                          column::per_second("bytes_per_second", "traffic")}};
  for (const KernelRow& row : kernels.rows) {
    const Spread& spread = row.seconds;
    table.rows.push_back({row.codelet, row.implementation, row.kind, row.layer,
                          count_cell(spread.count), spread.total, row.share, spread.mean,
                          spread.median, spread.min, spread.max, spread.mad, row.flops, row.bytes,
                          ratio(row.flops, spread.total), ratio(row.bytes, spread.total)});
  }
  Document document;
  document.facts = {{"compute", "compute", Format::seconds, kernels.compute}};
  document.tables = {std::move(table)};
  return document;
}

constexpr const char* kRooflineJson = R"(  {"peaks":[{"what","kind","per_worker","together"}],
   "codelets":[{"codelet","implementation","kind","layer" (with --by layer),"seconds","flops",
    "bytes","intensity","attained","roof","fraction","bound","lost"}]}
Peaks were measured on this machine before the run: gemm in flop/s, copy in bytes/s. The roof of a
worker is min(gemm, intensity * copy); bound says which. intensity: flop/byte, null without bytes.
attained and roof: flop/s; bytes/s for codelets without flops. lost: seconds that the roof would
save; rows are sorted by it. A fraction may be above 1; the text marks it with *.)";

constexpr const char* kAboveTheRoof =
    R"(* more than the measured roof. Either the data were in the caches, which are faster than the memory
  that `copy` measures; or the machine was busy while the peaks were measured, just before the run,
  and all shares of this table are too high. `omni-run devices --peaks` measures again.)";

Document describe_roofline(const Trace& trace, bool by_layer) {
  const Roofline roofline = analyse_roofline(trace, by_layer);
  Table peaks{.key = "peaks",
              .title = "Measured peaks (gemm: flop/s, copy: bytes/s)",
              .columns = {column::text("what", "peak"), column::text("kind"),
                          column::number("per_worker", "one worker"), column::number("together")}};
  for (const trace::Peak& peak : roofline.peaks)
    peaks.rows.push_back({peak.what, peak.kind, peak.per_worker, peak.together});
  Table table{
      .key = "codelets",
      .title = "Time lost against the roof",
      .columns = {column::text("codelet"), column::text("implementation"), column::text("kind"),
                  layer_column(by_layer), column::seconds("seconds", "total"),
                  column::hidden("flops"), column::hidden("bytes"),
                  column::number("intensity", "flop/byte"), column::hidden("attained"),
                  column::hidden("roof"), column::flops("", "attained"), column::flops("", "roof"),
                  column::hidden("fraction"), column::share("", "of roof"),
                  column::text("bound", "bound by"), column::seconds("lost")}};
  bool above = false;
  for (const RooflineRow& row : roofline.rows) {
    const Format unit = row.flops > 0 ? Format::flops : Format::per_second;
    const std::string attained = shown(row.attained, unit);
    const std::string roof = row.roof > 0 ? shown(row.roof, unit) : "-";
    const double fraction = row.roof > 0 ? row.fraction : kUnknown;
    const double lost = row.roof > 0 ? row.lost : kUnknown;
    above = above || row.fraction > 1;
    const std::string share = shown(fraction, Format::share) + (row.fraction > 1 ? " *" : "  ");
    table.rows.push_back({row.codelet, row.implementation, row.kind, row.layer, row.seconds.total,
                          row.flops, row.bytes, row.intensity, row.attained, row.roof, attained,
                          roof, fraction, share, row.bound, lost});
  }
  Document document;
  document.tables = {std::move(table), std::move(peaks)};
  if (above) document.notes.push_back(kAboveTheRoof);
  if (roofline.peaks.empty())
    document.notes.push_back("The trace holds no measured peaks, so there is no roof.");
  return document;
}

constexpr const char* kModelsJson =
    R"(  {"mape","without_prediction","outlier_count","outlier_seconds",
   "models":[{"codelet","implementation","kind","tasks","predicted","mape","bias"}],
   "worst":[{"task","codelet","implementation","worker","layer","iteration","predicted","actual"}],
   "outliers":[{"task","codelet","implementation","worker","layer","iteration","median","actual",
    "mads"}]}
mape: mean of |predicted - actual| / actual; bias: the same with its sign; both 0.1 for 10 %.
worst: the ten tasks with the largest |predicted - actual|. outliers: more than 5 median absolute
deviations off the median of their codelet, layer, implementation and kind of worker (at least 8
tasks); layer and iteration: null where a task has none; the ten farthest off, of outlier_count,
which took outlier_seconds more than the median.)";

std::vector<Cell> cells_of(const Trace& trace, const OddTask& odd) {
  const Task& task = trace.tasks[odd.task];
  return {count_cell(task.id),
          trace.codelet_name(task),
          trace.implementation_name(task),
          trace.workers[task.worker].name,
          id_cell(task.layer),
          id_cell(task.iteration),
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
                         column::text("kind"), column::count("tasks"), column::count("predicted"),
                         column::share("mape", "mean error"), column::share("bias")}};
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
  outliers.columns.push_back(column::number("mads", "deviations"));
  for (const OddTask& odd : models.outliers) {
    outliers.rows.push_back(cells_of(trace, odd));
    outliers.rows.back().push_back(odd.mads);
  }
  document.tables = {std::move(rows), std::move(worst), std::move(outliers)};
  return document;
}

}  // namespace

Command kernels_command(CLI::App& parent) {
  return trace_command_by_layer(parent, "kernels",
                                "Time and speed by codelet, implementation and worker",
                                kKernelsJson, describe_kernels);
}

Command roofline_command(CLI::App& parent) {
  return trace_command_by_layer(parent, "roofline",
                                "How far every codelet is from this machine's peaks", kRooflineJson,
                                describe_roofline);
}

Command models_command(CLI::App& parent) {
  return trace_command(parent, "models", "Predicted against actual times, and unusual tasks",
                       kModelsJson, describe_models);
}

}  // namespace omni::perf
