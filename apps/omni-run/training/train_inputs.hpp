// TrainInputs are what the command line of a training names: net, strategy, groups, checkpoint and
// data. A training that is alone opens and checks them before StarPU starts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "apps/omni-run/groups/group_options.hpp"
#include "scheduling/checkpoint/training_checkpoint.hpp"
#include "scheduling/forecast/virtual_clock.hpp"
#include "scheduling/training/training.hpp"

namespace omni {

class SharedTrainings;

struct TrainInputs {
  // The following functions are called in this order.
  Status open_nets();
  Status check();
  Status try_places();  // of files that will be written
  Status find_origin();
  // `shared` is set if the training is one of several in this process.
  Status open_images(SharedTrainings* shared);
  Status stage();  // copies image files to a disk of this node

  Status open_groups_again();  // after the number of groups or their shape has changed
  PilotOptions pilot_options(const Workers& workers);
  std::uint64_t checkpoint_bytes();  // rough size of a checkpoint

  TrainArguments arguments;
  std::function<std::unique_ptr<Pilot>()> make_pilot{};  // PilotOptions::make_another
  TrainableNet spec{};
  StrategyChoice strategy{};
  GroupsPlan shape{};
  Asynchrony asynchrony = Asynchrony::free;
  std::optional<Machine> machine{};        // of a virtual clock; none: real time
  std::optional<ComputeGroups> groups{};   // none: the Training has them
  std::optional<Checkpoint> checkpoint{};  // the training resumes from it; none: it starts afresh
  bool goes_on = false;                    // --resume auto, or the checkpoint is in the run folder
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> data_seed{};  // none: seed
  std::shared_ptr<DatasetPair> data{};
  std::uint64_t iterations = 0;  // planned; 0: no end
  RunIdentity identity{};
};

}  // namespace omni
