// These functions tell how long members train: omni-run ensemble --plan tells which members would
// train together on a machine of a machine file.
#pragma once

#include <vector>

#include "apps/omni-run/ensemble/member_list.hpp"
#include "runtime/result.hpp"

namespace omni {

// Prints the plan. Trains nothing, and writes no file.
Status plan_ensemble(const EnsembleArguments& arguments, const std::vector<Member>& members);

// Returns the operations of each member's training. Empty: a training has no end.
Result<std::vector<double>> work_of(const std::vector<Member>& members);

}  // namespace omni
