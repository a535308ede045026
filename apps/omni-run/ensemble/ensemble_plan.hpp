// These functions tell how long members train: omni-run ensemble --plan tells which members would
// train together on a machine of a machine file.
#pragma once

#include <vector>

#include "apps/omni-run/ensemble/member_list.hpp"
#include "runtime/result.hpp"
#include "scheduling/forecast/fleet/spread.hpp"

namespace omni {

// Prints the plan. Trains nothing, and writes no file.
Status plan_ensemble(const EnsembleArguments& arguments, const std::vector<Member>& members);

struct MemberWork {
  SpreadMember spread{};
  std::uint64_t iterations = 0;
  std::string one_rank{};  // why several ranks cannot share its mini-batches; "": they can
};
// Returns the work of each member, for this number of ranks. If a training has no end, all members
// count as equally long.
Result<std::vector<MemberWork>> work_of(const std::vector<Member>& members, int ranks);

}  // namespace omni
