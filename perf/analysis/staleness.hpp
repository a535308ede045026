// This analysis finds how groups shared what they learnt: their updates, the staleness of gradients
// at the master copy, and the meetings of their models.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

struct Staleness {
  std::size_t exchanges = 0;
  double mean = 0;
  std::int64_t max = 0;
  std::map<std::int64_t, std::size_t> histogram;  // number of exchanges by staleness
};

struct GroupStaleness {
  std::int32_t group = 0;
  std::size_t iterations = 0;
  Staleness staleness;
  double share = 0;     // of all updates
  double expected = 0;  // staleness: others' updates per update of its own; NaN if models meet
};

struct IterationStaleness : Staleness {
  std::int64_t iteration = 0;
};

struct Async {
  Staleness all;
  std::size_t meetings = 0;
  double expected = 0;                         // staleness; NaN if models meet
  std::vector<GroupStaleness> groups;          // by group
  std::vector<IterationStaleness> iterations;  // by iteration
};

Async analyse_async(const Trace& trace);

}  // namespace omni::perf
