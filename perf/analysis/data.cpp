#include "perf/analysis/data.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "perf/common/intervals.hpp"
#include "perf/common/statistics.hpp"

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

using Node = std::pair<std::int32_t, std::int32_t>;  // rank, memory node; -1: all

template <class Any>
Node receiver(const Any& one) {
  return {one.rank, one.from_rank < 0 ? one.to_node : -1};
}

// When at least one worker of the node computed; only of nodes that receive.
std::map<Node, std::vector<Interval>> computing(const Trace& trace) {
  std::map<Node, std::vector<Interval>> nodes;
  for (const trace::Transfer& transfer : trace.transfers) nodes[receiver(transfer)];
  if (nodes.empty()) return nodes;
  for (const Task& task : trace.tasks) {
    const Worker& worker = trace.workers[task.worker];
    for (const std::int32_t which : {worker.node, -1})
      if (const auto node = nodes.find({worker.rank, which}); node != nodes.end())
        node->second.push_back({task.times.start, task.times.end});
  }
  for (auto& [node, intervals] : nodes) intervals = united(std::move(intervals));
  return nodes;
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

Transfers analyse_transfers(const Trace& trace) {
  Transfers result;
  result.wall = trace.wall_seconds();
  struct Moved {
    Link link;
    std::vector<Interval> intervals;
  };
  std::map<std::array<std::int32_t, 4>, Moved> links;
  for (const trace::Transfer& transfer : trace.transfers) {
    Moved& moved = links[{transfer.rank, transfer.from_rank, transfer.from_node, transfer.to_node}];
    moved.link.rank = transfer.rank;
    moved.link.from_rank = transfer.from_rank;
    moved.link.from_node = transfer.from_node;
    moved.link.to_node = transfer.to_node;
    moved.link.count += transfer.count;
    moved.link.bytes += static_cast<double>(transfer.bytes);
    result.bytes += static_cast<double>(transfer.bytes);
    moved.intervals.push_back({transfer.from, transfer.to});
  }
  const auto compute = computing(trace);
  for (auto& [ends, moved] : links) {
    Link& link = moved.link;
    const std::vector<Interval> busy = united(std::move(moved.intervals));
    const auto common = static_cast<double>(common_length(busy, compute.at(receiver(link))));
    const auto length = static_cast<double>(length_of(busy));
    link.busy = length * 1e-9;
    link.overlapped = ratio(common, length);
    result.links.push_back(link);
  }
  std::ranges::stable_sort(result.links, std::ranges::greater(), &Link::bytes);
  return result;
}

}  // namespace omni::perf
