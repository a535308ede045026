// Memory over the run, the largest tensors, whether the data feed kept up, and what moved.
#pragma once

#include <string>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

struct CounterRow {
  std::string name;
  std::int32_t rank = 0;
  std::size_t samples = 0;
  double first = 0, last = 0, min = 0, max = 0, mean = 0;
  double zero_share = 0;  // of the samples

  double growth() const { return last - first; }
};

struct Memory {
  std::vector<CounterRow> memory;  // "memory.*", bytes
  std::vector<CounterRow> feed;    // "feed.*", mini-batches ahead of training
  std::vector<CounterRow> other;
  double data_bytes = 0;             // of all data
  std::vector<trace::Data> largest;  // ten, largest first
};

Memory analyse_memory(const Trace& trace);

// ---- between memory nodes and between ranks, and whether somebody computed meanwhile ----

struct Link {
  std::int32_t rank = 0, from_rank = -1, from_node = 0, to_node = 0;  // as in trace::Transfer
  std::uint64_t count = 0;
  double bytes = 0;
  double busy = 0;  // s in which at least one transfer was under way
  double overlapped =
      0;  // share of busy in which a worker of the receiving node, or rank, computed

  double bandwidth() const { return busy > 0 ? bytes / busy : 0; }  // byte/s
};

struct Transfers {
  double wall = 0;  // s
  double bytes = 0;
  std::vector<Link> links;  // most bytes first
};

Transfers analyse_transfers(const Trace& trace);

}  // namespace omni::perf
