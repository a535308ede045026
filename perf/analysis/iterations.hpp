// How long the iterations took: from one being complete to the next one being complete. The
// submitting thread runs ahead of the workers, so its own times say less.
#pragma once

#include <cstdint>
#include <vector>

#include "perf/common/statistics.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

struct IterationTime {
  std::int64_t iteration = 0;
  Nanoseconds done = 0;  // its last task
  double seconds = 0;    // since the one before; the first: since its first task was submitted
  double compute = 0;    // s, of all its tasks
};

struct Iterations {
  std::vector<IterationTime> times;  // in the order of completion
  Spread spread;                     // of seconds, without the first `skip`
  double images_per_second = 0;      // batch / median; 0: unknown
};

// skip: iterations left out of `spread`, which warm caches up and calibrate models; none if there
// are no others.
Iterations analyse_iterations(const Trace& trace, std::size_t skip = 2);

}  // namespace omni::perf
