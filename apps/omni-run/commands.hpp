// This header declares the subcommands. Each returns its error, if any, which main() turns into an
// exit code.
#pragma once

#include "apps/omni-run/command_arguments.hpp"
#include "apps/omni-run/ensemble/member_list.hpp"

namespace omni {

Status train_ensemble(const EnsembleArguments& arguments, std::vector<Member> members);
Status train_command(const TrainArguments& arguments);
Status valid_command(const ValidArguments& arguments);
Status predict_command(const PredictArguments& arguments);
Status time_command(const TimeArguments& arguments);
Status plan_command(const PlanArguments& arguments);
Status plan_gpu_command(const PlanArguments& arguments);
Status compare_command(const CompareArguments& arguments);
Status dataset_command(const DatasetArguments& arguments);
Status data_command(const DataCheckArguments& arguments);
Status shipped_net_command(const ShippedNetArguments& arguments);
Status convert_command(const ConvertArguments& arguments);
Status layers_command(const LayersArguments& arguments);
Status explain_command(const ExplainArguments& arguments);
Status devices_command(const DevicesArguments& arguments);
Status slurm_command(const SlurmArguments& arguments, const TrainArguments& training);
Status machine_command(const MachineFileArguments& arguments);

}  // namespace omni
