#include "scheduling/strategies/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/nearest.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

std::vector<StrategyType>& types() {
  static std::vector<StrategyType> all;
  return all;
}

}  // namespace

StrategyRegistration::StrategyRegistration(StrategyType type) {
  const auto at = std::ranges::lower_bound(types(), type.name, {}, &StrategyType::name);
  types().insert(at, std::move(type));
}

const std::vector<StrategyType>& strategy_types() { return types(); }

Result<const StrategyType*> find_strategy(std::string_view name) {
  std::vector<std::string_view> names;
  for (const StrategyType& type : types()) {
    if (type.name == name) return &type;
    names.push_back(type.name);
  }
  const std::string_view near = nearest(name, names);
  return Error{ErrorKind::usage, "--strategy",
               fmt::format("there is no strategy {}", shown_name(name)),
               near.empty() ? fmt::format("one of: {}", fmt::join(names, " "))
                            : fmt::format("did you mean {}?", near)};
}

const StrategyType& usual_strategy(bool several_groups) {
  return **find_strategy(several_groups ? "async" : "sync");
}

std::vector<std::string_view> StrategyOptions::given() const {
  std::vector<std::string_view> all;
  for (const auto& [option, there] :
       {std::pair("--async", asynchrony.has_value()),
        std::pair("--momentum-compensation", compensation.has_value()),
        std::pair("--sync-every", sync_every.has_value()), std::pair("--alpha", alpha.has_value()),
        std::pair("--central-momentum", central_momentum.has_value()),
        std::pair("--outer-rate", outer_rate.has_value()),
        std::pair("--outer-momentum", outer_momentum.has_value()),
        std::pair("--group-batches", !group_batches.empty()),
        std::pair("--batch-rate", batch_rate.has_value()),
        std::pair("--adapt-factor", adapt_factor.has_value()),
        std::pair("--adapt-weight", adapt_weight.has_value())})
    if (there) all.push_back(option);
  return all;
}

}  // namespace omni
