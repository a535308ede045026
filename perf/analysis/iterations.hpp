// This analysis measures iterations, from half of one being computed to half of the next one. The
// ends of iterations say less, because the last tasks of an iteration may wait until much of the
// next is done. So do the times of the submitting thread, which runs ahead of the workers.
#pragma once

#include <cstdint>
#include <vector>

#include "perf/common/statistics.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

struct IterationTime {
  std::int64_t iteration = 0;
  Nanoseconds half_done = 0;
  double seconds = 0;  // s since half_done of the iteration before; of the first iteration: from
                       // submission to end
};

struct Iterations {
  std::vector<IterationTime> times;  // in the order of half_done
  Spread spread;                     // of seconds, without the first `skip` iterations
  double images_per_second = 0;      // over the iterations in `spread`; 0: unknown
};

// Leaves the first `skip` iterations, which warm caches up and calibrate models, out of `spread`,
// unless there are no others.
Iterations analyse_iterations(const Trace& trace, std::size_t skip = 2);

// Returns the number of the first iteration after these `skip` ones. If there is none, returns 0.
std::int64_t first_counted(const Trace& trace, std::size_t skip = 2);

}  // namespace omni::perf
