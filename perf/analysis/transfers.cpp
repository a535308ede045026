#include "perf/analysis/transfers.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "perf/common/intervals.hpp"
#include "perf/common/statistics.hpp"

namespace omni::perf {
namespace {

using Node = std::pair<std::int32_t, std::int32_t>;  // rank, memory node; -1: all

template <class Any>
Node receiver(const Any& one) {
  return {one.rank, one.from_rank < 0 ? one.to_node : -1};
}

// Returns for every node that receives when at least one of its workers computed.
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
