// Whether a launcher (mpiexec, srun) started this process, and how many processes it started; from
// the environment alone, before MPI is loaded.
#pragma once

#include <functional>

#include "runtime/result.hpp"

namespace omni {

struct Launch {
  bool by_mpi = false;    // MPI's start-up information is there
  int tasks = 1;          // processes of this program; 0: the launcher does not say
  bool by_hydra = false;  // MPICH's mpiexec
};

using Environment = std::function<const char*(const char*)>;

// Refuses several processes without start-up information of MPI: each would train alone.
Result<Launch> read_launch(const Environment& environment);

}  // namespace omni
