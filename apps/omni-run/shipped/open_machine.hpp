// From what the user typed to a machine that the virtual clock can play.
#pragma once

#include <string>

#include "apps/omni-run/shipped/shipped_files.hpp"
#include "scheduling/arrivals/machine_file.hpp"

namespace omni {

// A path, or the name of a shipped machine file, with or without .json.
inline Result<Machine> read_machine(const std::string& file_or_name) {
  OMNI_TRY(const std::filesystem::path path, find_shipped(kShippedMachines, file_or_name));
  return read_machine_file(path);
}

}  // namespace omni
