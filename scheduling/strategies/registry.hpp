// This is the registry of strategies and of the options that each of them uses. A strategy
// registers itself in its own file.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"
#include "scheduling/strategies/async.hpp"
#include "scheduling/strategies/own_options.hpp"

namespace omni {

// GroupBatch is the initial size of a group's mini-batch in samples, with the bounds of a size that
// adapts.
struct GroupBatch {
  int start = 0, least = 0, most = 0;
  bool operator==(const GroupBatch&) const = default;
};

struct StrategyOptions {
  std::optional<Asynchrony> asynchrony{};
  std::optional<Compensation> compensation{};
  OptionValues own{};                       // of the options that strategies declare
  std::vector<GroupBatch> group_batches{};  // as StrategyType::sizes() gives them
  bool in_order = false;  // groups update in a fixed order, as in deterministic and simulated runs
};

// An OptionUse is an option that a strategy uses.
struct OptionUse {
  const DeclaredOption* option;
  std::optional<double> usual{};  // number by default; none: the option's help says it
};

// GroupModels says which model a group computes with.
enum class GroupModels {
  one,         // the shared model; several groups have replicas of layers that are not merged
  replicated,  // the shared model; several groups have replicas of all layers
  own          // a model of the group's own
};

// GroupSizes are the sizes of mini-batches and passes if they differ from the net's.
struct GroupSizes {
  std::vector<GroupBatch> batches{};   // by group; empty: all have the net's
  std::vector<int> images_per_pass{};  // by group; empty: the whole mini-batch
};

struct StrategyType {
  std::string_view name, summary;
  std::vector<OptionUse> options{};  // its own
  // `uses` are the options of omni-run for groups that the strategy uses, such as "--async". With
  // "--momentum-compensation" the momentum is compensated by default. With "--guard" the pilot of
  // this name steers the training.
  std::vector<std::string_view> uses{};
  GroupModels models = GroupModels::one;
  int least_groups = 1;  // fewer groups: omni-run takes `sync`
  int most_groups = kMostGroups;
  int usual_groups = 0;         // by default; 0: one for each worker that computes
  Meetings meetings{};          // by default
  bool grows = false;           // --groups auto finds the number of groups while training
  std::string_view saved_as{};  // name in checkpoints; "": `name`
  // Returns the sizes for groups on these devices; `batch` is the net's mini-batch. If `sizes` is
  // null, all groups take the net's mini-batch.
  Result<GroupSizes> (*sizes)(const StrategyOptions& options, int batch,
                              const std::vector<bool>& on_gpu) = nullptr;
  // Refuses values that do not fit each other; `options` lacks default values. `simulated` means
  // that a virtual clock orders the updates.
  Status (*check)(const StrategyOptions& options, bool simulated) = nullptr;
  // Makes the strategy. make_strategy() calls this, with default values for options that the user
  // did not give.
  MakeStrategy (*make)(const StrategyOptions& options) = nullptr;
};

struct StrategyRegistration {
  explicit StrategyRegistration(StrategyType type);
};

const std::vector<StrategyType>& strategy_types();  // sorted by name
Result<const StrategyType*> find_strategy(std::string_view name);
const StrategyType& usual_strategy(bool several_groups);  // the default
MakeStrategy make_strategy(const StrategyType& type, StrategyOptions options);

// Returns the options of all strategies, each once. Those of the last strategy come first.
std::vector<const DeclaredOption*> strategy_options();
const OptionUse* find_use(const StrategyType& type, std::string_view option);  // null: none
// Returns true if the option is one of the strategy's `options` or `uses`.
bool uses(const StrategyType& type, std::string_view option);

}  // namespace omni
