// From --strategy and its options to what the trainer and the groups' nets need.
#pragma once

#include <string_view>
#include <vector>

#include "apps/omni-run/arguments.hpp"
#include "apps/omni-run/training/group_options.hpp"
#include "scheduling/strategies/registry.hpp"

namespace omni {

struct StrategyChoice {
  const StrategyType* type = nullptr;
  StrategyOptions options;
  bool grows = false;  // the number of groups, while it trains; GroupArguments has the most
  std::string_view state_name() const;  // of StrategyState
  MakeStrategy make() const { return type->make(options); }
};

// Refuses what does not go together; sets the number of groups where the strategy needs several and
// none was given. `workers`: that compute.
Result<StrategyChoice> choose_strategy(TrainArguments& arguments, int workers);

// What the groups' nets look like. Mini-batches of several sizes: as --group-batches says, else by
// the groups' devices; `options.group_batches` then has one for each.
Result<GroupShape> shape_groups(StrategyChoice& choice, const GroupArguments& groups, int batch,
                                const std::vector<bool>& on_gpu);

// "3x4:1-16,64" as one entry per group; one entry stands for all.
Result<std::vector<GroupBatch>> parse_group_batches(std::string_view text, int groups);

}  // namespace omni
