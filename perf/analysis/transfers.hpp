// This analysis finds what moved between memory nodes and between ranks, and whether somebody
// computed meanwhile.
#pragma once

#include <cstdint>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

// A Link has all transfers from one place to one other.
struct Link {
  std::int32_t rank = 0, from_rank = -1, from_node = 0, to_node = 0;  // as in trace::Transfer
  std::uint64_t count = 0;
  double bytes = 0;
  double busy = 0;  // s in which at least one transfer was under way
  // `overlapped` is the share of `busy` in which a worker of the receiving node (between ranks: of
  // the receiving rank) computed.
  double overlapped = 0;

  double bandwidth() const { return busy > 0 ? bytes / busy : 0; }  // byte/s
};

struct Transfers {
  double wall = 0;  // s
  double bytes = 0;
  std::vector<Link> links;  // the one with most bytes first
};

Transfers analyse_transfers(const Trace& trace);

}  // namespace omni::perf
