#include "perf/analysis/memory.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace omni::perf {
namespace {

constexpr std::size_t kLargest = 10;

CounterRow row_of(std::vector<const trace::Counter*>& samples) {
  std::ranges::stable_sort(samples, {}, &trace::Counter::at);
  CounterRow row;
  row.name = samples[0]->name;
  row.rank = samples[0]->rank;
  row.samples = samples.size();
  row.first = samples.front()->value;
  row.last = samples.back()->value;
  row.min = row.max = row.first;
  double zeros = 0;
  for (const trace::Counter* sample : samples) {
    row.min = std::min(row.min, sample->value);
    row.max = std::max(row.max, sample->value);
    row.mean += sample->value;
    zeros += sample->value == 0 ? 1 : 0;
  }
  row.mean /= static_cast<double>(samples.size());
  row.zero_share = zeros / static_cast<double>(samples.size());
  return row;
}

}  // namespace

Memory analyse_memory(const Trace& trace) {
  Memory result;
  std::map<std::pair<std::string_view, std::int32_t>, std::vector<const trace::Counter*>> counters;
  for (const trace::Counter& counter : trace.counters)
    counters[{counter.name, counter.rank}].push_back(&counter);
  for (auto& [key, samples] : counters) {
    const bool memory = key.first.starts_with("memory."), feed = key.first.starts_with("feed.");
    (memory ? result.memory : feed ? result.feed : result.other).push_back(row_of(samples));
  }

  std::vector<const trace::Data*> largest;
  for (const trace::Data& data : trace.data) {
    result.data_bytes += static_cast<double>(data.bytes);
    largest.push_back(&data);
  }
  const auto shown = static_cast<std::ptrdiff_t>(std::min(largest.size(), kLargest));
  std::partial_sort(largest.begin(), largest.begin() + shown, largest.end(),
                    [](const trace::Data* a, const trace::Data* b) {
                      return std::pair(b->bytes, a->id) < std::pair(a->bytes, b->id);
                    });
  for (std::ptrdiff_t i = 0; i < shown; ++i) result.largest.push_back(*largest[i]);
  return result;
}

}  // namespace omni::perf
