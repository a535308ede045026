// Plans compute groups for this machine: one iteration's tasks are measured, then simulated.
#pragma once

#include <optional>
#include <string>

#include "apps/omni-run/command_arguments.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/checkpoint/checkpoint_folder.hpp"
#include "scheduling/forecast/group_plan.hpp"
#include "scheduling/forecast/machine/machine_file.hpp"
#include "scheduling/forecast/update_ratios.hpp"

namespace omni {

// What is measured for comparison is scaled to the speed that the machine had for the model.
Result<GroupPlan> plan_groups(const TrainableNet& spec, const PlanArguments& arguments,
                              const Session& session, const Dataset& images);

// Of a net with such mini-batches, on data that have this name.
UpdateRatios update_ratios_of(const TrainableNet& spec, int batch, const std::string& data,
                              const MachineArguments& machine);

// Trains with 1, 2, 4 ... groups from the same parameters on the same images, and counts the
// updates to the same loss.
Result<std::vector<UpdateRatio>> measure_updates(const PlanArguments& arguments,
                                                 const Session& session, const Dataset& images);

// For --groups auto.
struct ChosenGroups {
  int count;
  std::string reason;
  GroupPlan plan;  // no rows: there was nothing to plan
};
// What the checkpoint had; else the best of as many as have workers, or devices of the simulated
// machine, in at most half of the memory. `data`: their name, for updates that were measured on
// them.
Result<ChosenGroups> choose_groups(const TrainArguments& arguments,
                                   const std::optional<Checkpoint>& checkpoint,
                                   const Session& session, const Dataset& images,
                                   const std::string& data,
                                   const std::optional<Machine>& simulated);

}  // namespace omni
