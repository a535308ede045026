// This header prints the table or the JSON object at the end of `omni-run ensemble`.
#pragma once

#include <cstddef>
#include <vector>

#include "apps/omni-run/ensemble/ensemble_folder.hpp"
#include "scheduling/ensemble/sweep_judge.hpp"

namespace omni {

// Prints those of the members that `shown` names by their numbers, and the best of a sweep.
void print_ensemble(const std::vector<EnsembleMember>& members,
                    const std::vector<std::size_t>& shown, const BestMember& best, bool json);

}  // namespace omni
