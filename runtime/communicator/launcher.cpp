#include "runtime/communicator/launcher.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace omni {

Result<Launch> read_launch(const Environment& environment) {
  const auto number = [&](const char* name, int otherwise) {
    const char* text = environment(name);
    return text != nullptr && *text != '\0' ? std::atoi(text) : otherwise;
  };
  const auto is_set = [&](const char* name) { return environment(name) != nullptr; };
  // Of srun's own tasks SLURM_PROCID tells; a batch script has it, too, but no SLURM_STEP_ID.
  const bool by_srun = is_set("SLURM_STEP_ID") && is_set("SLURM_PROCID");
  Launch launch{
      .by_mpi = is_set("PMI_RANK") || is_set("PMI_FD") || is_set("PMI_PORT") || is_set("PMIX_RANK"),
      .tasks = 1,
      .by_hydra = is_set("HYDI_CONTROL_FD")};
  if (launch.by_mpi)
    launch.tasks = number("PMI_SIZE", number("SLURM_STEP_NUM_TASKS", 0));
  else if (is_set("OMPI_COMM_WORLD_SIZE"))
    launch.tasks = number("OMPI_COMM_WORLD_SIZE", 1);
  else if (by_srun)
    launch.tasks = number("SLURM_STEP_NUM_TASKS", 1);
  if (launch.tasks > 1 && !launch.by_mpi)
    return Error{ErrorKind::usage, "",
                 fmt::format("{} processes were started without MPICH's start-up information: each "
                             "would train alone",
                             launch.tasks),
                 by_srun ? "srun --mpi=pmi2, or one task" : "start it with MPICH's mpiexec"};
  return launch;
}

}  // namespace omni
