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

struct StrategyType {
  std::string_view name, summary;
  std::vector<std::string_view> uses{};  // options: "--alpha"
  GroupModels models = GroupModels::one;
  int least_groups = 1;  // fewer train as sync does
  int most_groups = kMostGroups;
  Meetings meetings{};             // by default
  bool has_group_batches = false;  // mini-batches of several sizes
  bool balances = false;           // the updates of groups of several kinds
  bool grows = false;              // --groups auto finds their number while training
  MakeStrategy (*make)(const StrategyOptions& options) = nullptr;
};

struct StrategyRegistration {
  explicit StrategyRegistration(StrategyType type);
};

const std::vector<StrategyType>& strategy_types();  // by name
Result<const StrategyType*> find_strategy(std::string_view name);

}  // namespace omni
