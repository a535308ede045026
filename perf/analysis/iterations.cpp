#include "perf/analysis/iterations.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <unordered_map>

namespace omni::perf {
namespace {

struct Seen {
  Nanoseconds submitted = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds ended = 0, compute = 0;                      // of all its tasks
  std::vector<std::pair<Nanoseconds, Nanoseconds>> tasks;  // end, length
};

Nanoseconds half_done(Seen& iteration) {
  std::ranges::sort(iteration.tasks);
  Nanoseconds computed = 0;
  for (const auto& [end, length] : iteration.tasks) {
    computed += length;
    if (2 * computed >= iteration.compute) return end;
  }
  return 0;
}

}  // namespace

Iterations analyse_iterations(const Trace& trace, std::size_t skip) {
  std::unordered_map<std::int64_t, Seen> seen;
  for (const Task& task : trace.tasks) {
    if (task.iteration < 0) continue;
    Seen& iteration = seen[task.iteration];
    iteration.submitted = std::min(iteration.submitted, task.times.submitted);
    iteration.ended = std::max(iteration.ended, task.times.end);
    iteration.compute += task.length();
    iteration.tasks.emplace_back(task.times.end, task.length());
  }
  Iterations result;
  Nanoseconds before = std::numeric_limits<Nanoseconds>::max(), ended = 0;
  for (auto& [number, iteration] : seen) {
    result.times.push_back({.iteration = number, .half_done = half_done(iteration), .seconds = 0});
    before = std::min(before, iteration.submitted);
    ended = std::max(ended, iteration.ended);
  }
  std::ranges::sort(result.times, [](const IterationTime& a, const IterationTime& b) {
    return std::pair(a.half_done, a.iteration) < std::pair(b.half_done, b.iteration);
  });
  if (result.times.size() <= skip) skip = 0;
  const double all = static_cast<double>(ended - before) * 1e-9;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < result.times.size(); ++i) {
    IterationTime& time = result.times[i];
    const Nanoseconds until = i == 0 ? seen[time.iteration].ended : time.half_done;
    time.seconds = static_cast<double>(until - before) * 1e-9;
    before = time.half_done;
    if (i >= skip) seconds.push_back(time.seconds);
  }
  result.spread = spread_of(std::move(seconds));
  if (!trace.headers.empty())
    result.images_per_second =
        ratio(trace.headers[0].batch * static_cast<double>(result.spread.count),
              skip > 0 ? result.spread.total : all);
  return result;
}

std::int64_t first_counted(const Trace& trace, std::size_t skip) {
  std::set<std::int64_t> first;
  for (const Task& task : trace.tasks) {
    if (task.iteration < 0) continue;
    first.insert(task.iteration);
    if (first.size() > skip + 1) first.erase(std::prev(first.end()));
  }
  return first.size() > skip ? *first.rbegin() : 0;
}

}  // namespace omni::perf
