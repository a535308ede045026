// The outcome of an ensemble follows from those of its members.
#pragma once

#include <vector>

#include "apps/omni-run/ensemble/ensemble_folder.hpp"

namespace omni {

// An ensemble is well as long as a member is, and none failed for another reason than its own
// divergence. `ended` is what trainings of this process returned, or those of all ranks. `members`
// are also those of earlier waves and other processes. `strict`: no member may diverge.
Status outcome(const std::vector<Status>& ended, const std::vector<EnsembleMember>& members,
               bool strict);
// Returns whether a sweep goes on after a wave with this outcome. A wave may diverge as a whole.
bool is_followed(const Status& wave, bool strict);

}  // namespace omni
