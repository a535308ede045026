// Whether a training would be refused once it starts as a job, as far as that can be told before,
// on a machine that may not be the job's.
#pragma once

#include <cstdint>

#include "apps/omni-run/training_arguments.hpp"
#include "runtime/result.hpp"

namespace omni {

struct ExpectedJob {
  int ranks = 1;
  int gpus = 0;              // on each node; 0: none were asked for
  std::int64_t seconds = 0;  // 0: without an end
};

Status check_for_job(TrainArguments arguments, const ExpectedJob& job);

}  // namespace omni
