// How the groups shared what they learnt: how many updates each made, how stale the gradients were
// that they handed to the master copy, and how often their own models met.
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
  std::map<std::int64_t, std::size_t> histogram;  // staleness -> exchanges
};

struct GroupStaleness {
  std::int32_t group = 0;
  std::size_t iterations = 0;
  Staleness staleness;
  double share = 0;     // of all updates
  double expected = 0;  // staleness: updates by others for each of its own; NaN where models meet
};

struct IterationStaleness : Staleness {
  std::int64_t iteration = 0;
};

struct Async {
  Staleness all;
  std::size_t meetings = 0;
  double expected = 0;                         // staleness; NaN where models meet
  std::vector<GroupStaleness> groups;          // by group
  std::vector<IterationStaleness> iterations;  // by iteration
};

Async analyse_async(const Trace& trace);

}  // namespace omni::perf
