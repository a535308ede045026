// A TrainingPlan describes a training as plain data: the net with its solver, the data, the groups,
// the strategy, the pilots and the outputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codelets/elementwise/coding.hpp"
#include "layers/net_description.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/feed/shared_stream.hpp"
#include "scheduling/groups/group_layout.hpp"
#include "scheduling/pilots/registry.hpp"
#include "scheduling/strategies/registry.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {

// A GroupsPlan has the compute groups of a training, their models and their ranks.
struct GroupsPlan {
  int count = 1;
  GroupModels models = GroupModels::one;                    // StrategyType::models
  FullyConnected fully_connected = FullyConnected::merged;  // only for GroupModels::one
  std::vector<int> images_per_pass{};                       // by group; empty: the whole mini-batch
  std::vector<RankRange> ranks{};  // by group; empty: all ranks share all mini-batches
  // By rank of the job: the ranks of a group share mini-batches in proportion to their weights.
  // Empty: all have the same share.
  std::vector<int> weights{};
  std::vector<int> cores_by_rank{};  // that compute; empty: all have BuildOptions::cores
  int sharing = 0;  // number of groups among which a rank's workers are divided; 0: all on the rank
};

struct TrainingPlan {
  TrainableNet net;
  BuildOptions build{};  // with all workers of this rank, which groups divide among them
  GroupsPlan groups{};
  DatasetPair* data = nullptr;  // must outlive the training; without a test set nothing is tested
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> data_seed{};  // of the samples' order and augmentation; none: `seed`
  // `stream` has the decoded training samples of this data, seed and augmentation, which other
  // trainings may share. It must outlive the training. Groups with mini-batches of other sizes do
  // not use it. Null means that there is none.
  SharedStream* stream = nullptr;
  SharedStream* test_stream = nullptr;  // likewise, of the test samples
  MakeStrategy strategy = async();
  Coding send{};  // of gradients, contributions and new values between ranks
  PilotOptions pilots{};
  // `length` has the trainer's options. Its solver, strategy and feeds are not used, as they follow
  // from the plan.
  TrainerOptions length{};
  TrainerEvents events{};
};

}  // namespace omni
