// omni-run plan --measure-updates: trains with 1, 2, 4 ... groups from the same parameters on the
// same images, and counts the updates to the same loss.
#pragma once

#include "apps/omni-run/arguments.hpp"
#include "layers/net_spec.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/model/update_ratios.hpp"

namespace omni {

// Of a net with such mini-batches, on data that have this name.
UpdateRatios update_ratios_of(const NetSpec& spec, int batch, const std::string& data,
                              const MachineArguments& machine);

Result<std::vector<UpdateRatio>> measure_updates(const PlanArguments& arguments,
                                                 const Session& session, const Dataset& images);

}  // namespace omni
