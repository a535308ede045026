// Files that come with the program, found by name: nets and machine files.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/result.hpp"
#include "scheduling/arrivals/machine_file.hpp"

namespace omni {

struct ShippedKind {
  const char *noun, *option, *ending;
  const char* folder;    // of share/omnivore, beside the program, installed or in the build tree
  const char* variable;  // of the environment; names a folder that comes first
};

inline constexpr ShippedKind kShippedNets{"net", "--net", ".cfg", "nets", "OMNIVORE_NETS"};
inline constexpr ShippedKind kShippedMachines{"machine", "--machine", ".json", "machines",
                                              "OMNIVORE_MACHINES"};
inline constexpr ShippedKind kShippedJobs{"job script", "--template", ".sbatch", "slurm",
                                          "OMNIVORE_SLURM"};

// A path, or the name of a shipped file, with or without its ending.
Result<std::filesystem::path> find_shipped(const ShippedKind& kind, const std::string& name);
Result<Machine> read_machine(const std::string& file_or_name);

}  // namespace omni
