// This header reads from the environment the Slurm job that this process belongs to.
#pragma once

#include <cstdlib>
#include <string>

#include "runtime/own_command.hpp"

namespace omni::slurm {

inline std::string variable(const char* name) { return environment(name); }
// Returns the number within an array of jobs; "" outside of one.
inline std::string array_task() { return variable("SLURM_ARRAY_TASK_ID"); }
// Returns "17", or "17_3" in an array, or "" outside of a job.
inline std::string job() {
  return array_task().empty() ? variable("SLURM_JOB_ID")
                              : variable("SLURM_ARRAY_JOB_ID") + "_" + array_task();
}
// Returns how often Slurm started this job before.
inline int restarts() { return std::atoi(variable("SLURM_RESTART_COUNT").c_str()); }

}  // namespace omni::slurm
