// The start of a training over several ranks.
#pragma once

#include "apps/omni-run/arguments.hpp"

namespace omni {

// Each rank's workers, where several are on a host.
void share_workers(MachineArguments& machine);

// Before workers are chosen. All ranks but the first write no files and are quiet.
Status prepare_ranks(TrainArguments& train);

}  // namespace omni
