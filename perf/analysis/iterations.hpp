// How long the iterations took: from half of one being computed to half of the next one. Their ends
// say less, since the last tasks of one may wait until much of the next is done, and so do the
// times of the submitting thread, which runs ahead of the workers.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "perf/common/statistics.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

struct IterationTime {
  std::int64_t iteration = 0;
  Nanoseconds half_done = 0;
  double seconds = 0;  // since the one before; the first: from submission to its end
};

struct Iterations {
  std::vector<IterationTime> times;  // in the order of half_done
  Spread spread;                     // of seconds, without the first `skip`
  double images_per_second = 0;      // of all in `spread`; 0: unknown
};

// skip: iterations left out of `spread`, which warm caches up and calibrate models; none if there
// are no others.
Iterations analyse_iterations(const Trace& trace, std::size_t skip = 2);

// The number of the first iteration after these; 0 if there are no others: they are better than
// none.
std::int64_t first_counted(const Trace& trace, std::size_t skip = 2);

// ---- how the groups shared what they learnt: how many updates each made, how stale the gradients
// were that they handed to the master copy, and how often their own models met ----

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
