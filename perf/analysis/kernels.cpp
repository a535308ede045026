#include "perf/analysis/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <unordered_map>

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
  if (row.flops <= 0 && row.bytes <= 0) return;  // the codelet states no cost
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

}  // namespace omni::perf
