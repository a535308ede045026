// What Slurm says of the job that this process belongs to.
#pragma once

#include <cstdlib>
#include <string>

#include "runtime/own_command.hpp"

namespace omni::slurm {

inline std::string variable(const char* name) { return environment(name); }
// The number within an array of jobs; "": the job is in none.
inline std::string array_task() { return variable("SLURM_ARRAY_TASK_ID"); }
// "17", or "17_3" in an array; "": there is no job.
inline std::string job() {
  return array_task().empty() ? variable("SLURM_JOB_ID")
                              : variable("SLURM_ARRAY_JOB_ID") + "_" + array_task();
}
// How often it was started before.
inline int restarts() { return std::atoi(variable("SLURM_RESTART_COUNT").c_str()); }

}  // namespace omni::slurm
