#include "perf/analysis/critical_path.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "perf/common/replay.hpp"

namespace omni::perf {
namespace {

constexpr std::size_t kMostReplays = 12;

// Indices of the codelets to make faster: those named, or those with most compute time.
std::vector<std::size_t> candidates(const Trace& trace, const std::vector<std::string>& named) {
  std::vector<double> compute(trace.codelets.size(), 0.0);
  for (const Task& task : trace.tasks) compute[task.codelet] += task.seconds();
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < trace.codelets.size(); ++i) {
    const bool wanted =
        std::find(named.begin(), named.end(), trace.codelets[i].name) != named.end();
    if (named.empty() ? compute[i] > 0 : wanted) chosen.push_back(i);
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](std::size_t a, std::size_t b) { return compute[a] > compute[b]; });
  if (named.empty()) chosen.resize(std::min(chosen.size(), kMostReplays));
  return chosen;
}

}  // namespace

std::vector<std::uint32_t> longest_path(const Trace& trace, const Dependencies& dependencies) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<double> length(trace.tasks.size());  // of the longest path that ends here
  std::vector<std::uint32_t> before(trace.tasks.size(), kNone);
  std::vector<std::uint32_t> longest(dependencies.join_count(), kNone);  // member
  const auto prefer = [&](std::uint32_t& best, std::uint32_t other) {
    if (best == kNone || std::pair(length[other], other) > std::pair(length[best], best))
      best = other;
  };
  std::uint32_t last = kNone;
  for (std::uint32_t i = 0; i < trace.tasks.size(); ++i) {
    for (const std::uint32_t other : dependencies.direct(i)) prefer(before[i], other);
    for (const std::uint32_t join : dependencies.joins(i)) {
      // All members come before the first task that waits for them.
      if (longest[join] == kNone)
        for (const std::uint32_t other : dependencies.members(join)) prefer(longest[join], other);
      prefer(before[i], longest[join]);
    }
    length[i] =
        static_cast<double>(trace.tasks[i].length()) + (before[i] == kNone ? 0 : length[before[i]]);
    if (last == kNone || length[i] >= length[last]) last = i;
  }
  std::vector<std::uint32_t> path;
  for (; last != kNone; last = before[last]) path.push_back(last);
  std::reverse(path.begin(), path.end());
  return path;
}

CriticalPath analyse_critical_path(const Trace& trace, const Dependencies& dependencies,
                                   double factor, const std::vector<std::string>& codelets) {
  CriticalPath result;
  result.wall = trace.wall_seconds();
  result.factor = factor;
  result.tasks = longest_path(trace, dependencies);
  std::map<std::uint32_t, PathRow> rows;
  for (const std::uint32_t task : result.tasks) {
    PathRow& row = rows[trace.tasks[task].codelet];
    row.codelet = trace.codelet_name(trace.tasks[task]);
    row.tasks += 1;
    row.seconds += trace.tasks[task].seconds();
    result.length += trace.tasks[task].seconds();
  }
  for (auto& [codelet, row] : rows) result.rows.push_back(std::move(row));
  std::stable_sort(result.rows.begin(), result.rows.end(),
                   [](const PathRow& a, const PathRow& b) { return a.seconds > b.seconds; });

  const Replay replay(trace, dependencies);
  std::vector<double> scale(trace.codelets.size(), 1.0);
  result.replayed = replay.run(scale);
  for (const std::size_t codelet : candidates(trace, codelets)) {
    scale[codelet] = 1 / factor;
    const double seconds = replay.run(scale);
    scale[codelet] = 1;
    result.what_if.push_back({.codelet = trace.codelets[codelet].name,
                              .seconds = seconds,
                              .saved = result.replayed - seconds});
  }
  std::stable_sort(result.what_if.begin(), result.what_if.end(),
                   [](const WhatIf& a, const WhatIf& b) { return a.saved > b.saved; });
  return result;
}

}  // namespace omni::perf
