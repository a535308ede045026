#include "perf/analysis/iterations.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace omni::perf {
namespace {

struct Seen {
  Nanoseconds submitted = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds done = 0;
  double compute = 0;
};

}  // namespace

Iterations analyse_iterations(const Trace& trace, std::size_t skip) {
  std::unordered_map<std::int64_t, Seen> seen;
  for (const Task& task : trace.tasks) {
    if (task.iteration < 0) continue;
    Seen& iteration = seen[task.iteration];
    iteration.submitted = std::min(iteration.submitted, task.times.submitted);
    iteration.done = std::max(iteration.done, task.times.released);
    iteration.compute += task.seconds();
  }
  Iterations result;
  Nanoseconds before = std::numeric_limits<Nanoseconds>::max();
  for (const auto& [number, iteration] : seen) {
    result.times.push_back(
        {.iteration = number, .done = iteration.done, .seconds = 0, .compute = iteration.compute});
    before = std::min(before, iteration.submitted);
  }
  std::sort(result.times.begin(), result.times.end(),
            [](const IterationTime& a, const IterationTime& b) {
              return std::pair(a.done, a.iteration) < std::pair(b.done, b.iteration);
            });
  if (result.times.size() <= skip) skip = 0;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < result.times.size(); ++i) {
    IterationTime& time = result.times[i];
    time.seconds = static_cast<double>(time.done - before) * 1e-9;
    before = time.done;
    if (i >= skip) seconds.push_back(time.seconds);
  }
  result.spread = spread_of(std::move(seconds));
  if (!trace.headers.empty())
    result.images_per_second = ratio(trace.headers[0].batch, result.spread.median);
  return result;
}

}  // namespace omni::perf
