#include "perf/analysis/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "perf/common/task_class.hpp"

namespace omni::perf {

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
  std::ranges::stable_sort(result.rows, [](const KernelRow& a, const KernelRow& b) {
    return a.seconds.total > b.seconds.total;
  });
  return result;
}

}  // namespace omni::perf
