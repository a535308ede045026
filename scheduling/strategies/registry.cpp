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

MakeStrategy make_strategy(const StrategyType& type, StrategyOptions options) {
  for (const auto& [option, usual] : type.options)
    if (OptionValue& value = options.own.by_name[std::string(option->name)]; !value.number)
      value.number = usual;
  return type.make(options);
}

std::vector<const DeclaredOption*> strategy_options() {
  std::vector<const DeclaredOption*> all;
  for (auto type = types().rbegin(); type != types().rend(); ++type)
    for (const OptionUse& use : type->options)
      if (std::ranges::find(all, use.option) == all.end()) all.push_back(use.option);
  return all;
}

const OptionUse* find_use(const StrategyType& type, std::string_view option) {
  const auto found = std::ranges::find_if(
      type.options, [option](const OptionUse& use) { return use.option->name == option; });
  return found == type.options.end() ? nullptr : &*found;
}

bool uses(const StrategyType& type, std::string_view option) {
  return find_use(type, option) != nullptr ||
         std::ranges::find(type.uses, option) != type.uses.end();
}

}  // namespace omni
