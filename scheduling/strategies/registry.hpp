// The strategies by name, with the options that each of them uses. A strategy registers itself in
// its own file.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"
#include "scheduling/strategies/async.hpp"

namespace omni {

// Samples of a group's mini-batch: at the start, and where it adapts, the bounds.
struct GroupBatch {
  int start = 0, least = 0, most = 0;
  bool operator==(const GroupBatch&) const = default;
};

struct StrategyOptions {
  std::optional<Asynchrony> asynchrony{};
  std::optional<Compensation> compensation{};
  std::optional<int> sync_every{};
  std::optional<double> alpha{}, central_momentum{};
  std::optional<double> outer_rate{}, outer_momentum{};
  std::vector<GroupBatch> group_batches{};  // one for all groups, or one for each
  std::optional<double> batch_rate{}, adapt_factor{}, adapt_weight{};
  bool in_order = false;  // groups take turns: the run is deterministic or simulated

  std::vector<std::string_view> given() const;  // "--alpha"
};

// The model with which a group computes: the shared one (with several groups: a copy of it), or one
// of its own.
enum class GroupModels { one, replicated, own };

// What groups compute at once, where that is not the net's mini-batch.
struct GroupSizes {
  std::vector<GroupBatch> batches{};   // by group; none: all have the net's
  std::vector<int> images_per_pass{};  // by group; none: the whole mini-batch
};

struct StrategyType {
  std::string_view name, summary;
  std::vector<std::string_view> uses{};  // options: "--alpha"
  GroupModels models = GroupModels::one;
  int least_groups = 1;  // fewer train as sync does
  int most_groups = kMostGroups;
  Meetings meetings{};          // by default
  bool grows = false;           // --groups auto finds their number while training
  std::string_view saved_as{};  // in checkpoints; "": by its name
  // The sizes for groups of these kinds, of a net with such mini-batches. `wanted`: by group, as
  // the user wants them; none: as they suit. Null: all groups take the net's mini-batch at once.
  Result<GroupSizes> (*sizes)(std::vector<GroupBatch> wanted, int batch,
                              const std::vector<bool>& on_gpu) = nullptr;
  MakeStrategy (*make)(const StrategyOptions& options) = nullptr;
};

struct StrategyRegistration {
  explicit StrategyRegistration(StrategyType type);
};

const std::vector<StrategyType>& strategy_types();  // by name
Result<const StrategyType*> find_strategy(std::string_view name);
const StrategyType& usual_strategy(bool several_groups);  // where none is named

}  // namespace omni
