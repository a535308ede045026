// check_ranks() refuses what a training on several ranks may not ask for. The other functions make
// all ranks return alike.
#pragma once

#include <functional>

#include "apps/omni-run/groups/group_options.hpp"
#include "apps/omni-run/training_arguments.hpp"
#include "scheduling/groups/compute_groups.hpp"

namespace omni {

// Refuses options that trainings on several ranks do not have. StrategyChoice explains `grows`.
// `shares` means that other trainings read the same stream of samples.
Status check_ranks(const TrainArguments& arguments, ComputeGroups& of, bool grows, bool shares);

// Warns where messages of Coding::Kind::top and the strategy's options do not go together.
void warn_about_sending(const Coding& send, const StrategyChoice& strategy);

// Only the first rank does the work; if it fails, all ranks return an error.
Status on_first_rank(const std::function<Status()>& work);

// Collective. If all ranks give success, returns it. Otherwise all ranks return the error of the
// lowest rank that has one.
Status as_on_all_ranks(Status own);

}  // namespace omni
