// This header checks, before a Slurm job is submitted, whether its training would be refused. The
// check may run on a machine that is not the job's, so it cannot find every problem.
#pragma once

#include <cstdint>

#include "apps/omni-run/training_arguments.hpp"
#include "runtime/result.hpp"

namespace omni {

struct ExpectedJob {
  int ranks = 1;
  int gpus = 0;              // on each node; 0: the job asks for none
  std::int64_t seconds = 0;  // time limit; 0: none
};

Status check_for_job(TrainArguments arguments, const ExpectedJob& job);

}  // namespace omni
