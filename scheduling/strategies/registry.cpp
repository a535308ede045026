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

const StrategyRegistration sync_registration(
    {.name = "sync",
     .summary = "one group: all workers share each mini-batch",
     .most_groups = 1,
     .make = [](const StrategyOptions&) { return async(Asynchrony::reproducible); }});

const StrategyRegistration async_registration(
    {.name = "async",
     .summary = "groups update one model as their gradients arrive, with compensated momentum",
     .uses = {StrategyOption::asynchrony, StrategyOption::compensation,
              StrategyOption::fully_connected, StrategyOption::cold_start, StrategyOption::guard},
     .make = [](const StrategyOptions& options) {
       return async(options.in_order ? Asynchrony::reproducible
                                     : options.asynchrony.value_or(Asynchrony::free),
                    options.compensation.value_or(Compensation::theory));
     }});

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
  return Error{ErrorKind::usage, "--strategy",
               fmt::format("there is no strategy {}", shown_name(name)),
               fmt::format("one of {}", fmt::join(names, ", "))};
}

std::string_view option_name(StrategyOption option) {
  switch (option) {
    case StrategyOption::asynchrony: return "--async";
    case StrategyOption::compensation: return "--momentum-compensation";
    case StrategyOption::fully_connected: return "--fc";
    case StrategyOption::cold_start: return "--cold-start";
    case StrategyOption::guard: return "--guard";
    case StrategyOption::sync_every: return "--sync-every";
    case StrategyOption::alpha: return "--alpha";
    case StrategyOption::central_momentum: return "--central-momentum";
    case StrategyOption::outer_rate: return "--outer-rate";
    case StrategyOption::outer_momentum: return "--outer-momentum";
    case StrategyOption::group_batches: return "--group-batches";
    case StrategyOption::adapt_factor: return "--adapt-factor";
    case StrategyOption::adapt_weight: return "--adapt-weight";
  }
  return "";
}

std::vector<StrategyOption> StrategyOptions::given() const {
  std::vector<StrategyOption> all;
  const auto add = [&](StrategyOption option, bool there) {
    if (there) all.push_back(option);
  };
  add(StrategyOption::asynchrony, asynchrony.has_value());
  add(StrategyOption::compensation, compensation.has_value());
  add(StrategyOption::sync_every, sync_every.has_value());
  add(StrategyOption::alpha, alpha.has_value());
  add(StrategyOption::central_momentum, central_momentum.has_value());
  add(StrategyOption::outer_rate, outer_rate.has_value());
  add(StrategyOption::outer_momentum, outer_momentum.has_value());
  add(StrategyOption::group_batches, !group_batches.empty());
  add(StrategyOption::adapt_factor, adapt_factor.has_value());
  add(StrategyOption::adapt_weight, adapt_weight.has_value());
  return all;
}

}  // namespace omni
