#include "perf/analysis/staleness.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

namespace omni::perf {
namespace {

// Adds to the sum that `mean` holds until divide().
void add(Staleness& staleness, std::int64_t value) {
  ++staleness.exchanges;
  staleness.mean += static_cast<double>(value);
  staleness.max = std::max(staleness.max, value);
  ++staleness.histogram[value];
}

void divide(Staleness& sum) {
  if (sum.exchanges > 0) sum.mean /= static_cast<double>(sum.exchanges);
}

}  // namespace

Async analyse_async(const Trace& trace) {
  Async result;
  std::map<std::int32_t, GroupStaleness> groups;
  std::map<std::int32_t, std::set<std::int64_t>> iterations_of;
  std::map<std::int64_t, IterationStaleness> iterations;
  for (const trace::Exchange& exchange : trace.exchanges) {
    add(result.all, exchange.staleness);
    add(groups[exchange.group].staleness, exchange.staleness);
    iterations_of[exchange.group].insert(exchange.iteration);
    add(iterations[exchange.iteration], exchange.staleness);
  }
  divide(result.all);
  result.meetings = trace.meetings.size();
  const auto updates = static_cast<double>(result.all.exchanges);
  const bool one_model = trace.meetings.empty();
  result.expected = one_model && !groups.empty() ? static_cast<double>(groups.size()) - 1
                                                 : std::numeric_limits<double>::quiet_NaN();
  for (auto& [number, group] : groups) {
    group.group = number;
    const auto own = static_cast<double>(group.staleness.exchanges);
    group.share = own / updates;
    group.expected = one_model ? (updates - own) / own : result.expected;
    group.iterations = iterations_of[number].size();
    divide(group.staleness);
    result.groups.push_back(std::move(group));
  }
  for (auto& [number, iteration] : iterations) {
    iteration.iteration = number;
    divide(iteration);
    result.iterations.push_back(iteration);
  }
  return result;
}

}  // namespace omni::perf
