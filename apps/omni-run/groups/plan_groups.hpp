// This header plans the number of compute groups: the tasks of one iteration are measured, then
// simulated.
#pragma once

#include <optional>
#include <string>

#include "apps/omni-run/command_arguments.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/checkpoint/checkpoint_folder.hpp"
#include "scheduling/forecast/group_plan.hpp"
#include "scheduling/forecast/machine/machine_file.hpp"
#include "scheduling/forecast/update_ratios.hpp"

namespace omni {

// Plans groups for this machine. Times that are measured for comparison are scaled to the speed
// that the machine had when the model was measured.
Result<GroupPlan> plan_groups(const TrainableNet& spec, const PlanArguments& arguments,
                              const Session& session, const Dataset& images);

Machine::Link machine_link(const ranks::Link& measured);

// Returns the stored update ratios of a net, its size of mini-batches, and the data with this name.
UpdateRatios update_ratios_of(const TrainableNet& spec, int batch, const std::string& data,
                              const MachineArguments& machine);

// Trains with 1, 2, 4 ... groups from the same parameters on the same images, and counts the
// updates to the same loss.
Result<std::vector<UpdateRatio>> measure_updates(const PlanArguments& arguments,
                                                 const Session& session, const Dataset& images);

// ChosenGroups has the number of groups that --groups auto uses.
struct ChosenGroups {
  int count;
  std::string reason;
  GroupPlan plan;  // no rows: there was nothing to plan
};
// Chooses the number in the checkpoint, if there is one. Otherwise it plans: at most one group per
// worker, or per device of the simulated machine, in at most half of the memory. Of several ranks
// the first one plans for all, as `plan --nodes` does: at most one group per rank. `data` is the
// name by which measured update ratios are found. Collective.
Result<ChosenGroups> choose_groups(const TrainArguments& arguments,
                                   const std::optional<Checkpoint>& checkpoint,
                                   const Session& session, const Dataset& images,
                                   const std::string& data,
                                   const std::optional<Machine>& simulated);

}  // namespace omni
