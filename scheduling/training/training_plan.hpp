// What a training is, as plain data: the net, the solver beside it, the data, the groups, the
// strategy, the pilots and the outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/net_description.hpp"
#include "runtime/data/dataset.hpp"
#include "scheduling/groups/group_layout.hpp"
#include "scheduling/pilots/registry.hpp"
#include "scheduling/strategies/registry.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {

// Which compute groups there are, and what they compute with.
struct GroupsPlan {
  int count = 1;
  GroupModels models = GroupModels::one;
  FullyConnected fully_connected = FullyConnected::merged;  // of groups with one model
  std::vector<int> images_per_pass{};                       // by group; none: the whole mini-batch
  std::vector<RankRange> ranks{};  // of each group; none: all ranks share all mini-batches
  int sharing = 0;  // groups that divide the workers of a rank among them; 0: all on it
};

struct TrainingPlan {
  TrainableNet net;
  BuildOptions build{};  // for all workers of this rank; groups divide them
  GroupsPlan groups{};
  DatasetPair* data = nullptr;  // which outlives the training; without test set, nothing is tested
  std::uint64_t seed = 1;
  MakeStrategy strategy = async();
  PilotOptions pilots{};
  TrainerOptions length{};  // and intervals; what else it has follows from the plan
  TrainerEvents events{};
};

}  // namespace omni
