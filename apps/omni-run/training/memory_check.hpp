// check_memory() computes the memory that a training will take.
#pragma once

#include "apps/omni-run/arguments.hpp"
#include "scheduling/training/training.hpp"

namespace omni {

// Refuses a training whose memory does not fit, and prints the memory of one that fits. Nothing is
// allocated yet. `others` are the bytes of main memory that other trainings of this process will
// take. Returns the bytes of this training.
Result<std::size_t> check_memory(Training& training, const MachineArguments& machine,
                                 const Session& session, std::size_t others);

}  // namespace omni
