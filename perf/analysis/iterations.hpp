// How long the iterations took: from half of one being computed to half of the next one. Their ends
// say less, since the last tasks of one may wait until much of the next is done, and so do the
// times of the submitting thread, which runs ahead of the workers.
#pragma once

#include <cstdint>
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

}  // namespace omni::perf
