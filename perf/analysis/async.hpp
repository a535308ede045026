// How stale the gradients were that the groups handed to the master copy.
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
};

struct IterationStaleness {
  std::int64_t iteration = 0;
  std::size_t exchanges = 0;
  double mean = 0;
  std::int64_t max = 0;
};

struct Async {
  Staleness all;
  std::vector<GroupStaleness> groups;          // by group
  std::vector<IterationStaleness> iterations;  // by iteration
};

Async analyse_async(const Trace& trace);

}  // namespace omni::perf
