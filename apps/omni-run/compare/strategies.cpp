#include "apps/omni-run/compare/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "apps/omni-run/arguments.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

using Words = std::vector<std::string>;

// The only place that knows how a training is told its strategy.
Words words_of(std::string_view name, std::optional<int> groups) {
  Words words{"--strategy", std::string(name)};
  if (groups) words.insert(words.end(), {"--groups", std::to_string(*groups)});
  return words;
}

Error refusal(std::string_view text, std::string what, std::string hint) {
  return {ErrorKind::usage, "--strategies", shown_name(text) + " " + std::move(what),
          std::move(hint)};
}

Result<NamedStrategy> parse_strategy(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto found = find_strategy(name);
  if (!found) return refusal(text, "is no strategy", found.error().hint);
  const StrategyType* const type = *found;
  const bool given = colon != text.npos;
  if (given && type->most_groups == 1)
    return refusal(text, "has no groups to count", std::string(name));
  // The others take as many as there are workers.
  if (!given && type->most_groups > 1 && type->models == GroupModels::one)
    return refusal(text, "lacks its number of groups", fmt::format("{}:4", name));
  if (!given) return NamedStrategy{std::string(name), words_of(name, {})};
  const auto groups = count_in(text.substr(colon + 1), kMostGroups);
  if (!groups)
    return refusal(text, fmt::format("does not name 1 to {} groups", kMostGroups),
                   fmt::format("{}:4", name));
  return NamedStrategy{fmt::format("{}:{}", name, *groups), words_of(name, groups)};
}

// "sync@512": with mini-batches of that size.
Result<NamedStrategy> parse_with_batch(std::string_view text) {
  const std::size_t at = text.find('@');
  OMNI_TRY(NamedStrategy strategy, parse_strategy(text.substr(0, at)));
  if (at == text.npos) return strategy;
  const auto batch = count_in(text.substr(at + 1), kMostImages);
  if (!batch)
    return refusal(text, fmt::format("names no mini-batch of 1 to {} images", kMostImages),
                   fmt::format("{}@64", strategy.name));
  strategy.name += fmt::format("@{}", *batch);
  strategy.words.insert(strategy.words.end(), {"--batch", std::to_string(*batch)});
  return strategy;
}

}  // namespace

std::string NamedStrategy::file_name() const {
  std::string text = name;
  std::ranges::replace(text, ':', '-');
  std::ranges::replace(text, '@', '-');
  return text;
}

Result<std::vector<NamedStrategy>> parse_strategies(std::string_view list) {
  std::vector<NamedStrategy> strategies;
  for (const std::string_view each : split(list, ',')) {
    OMNI_TRY(NamedStrategy strategy, parse_with_batch(each));
    if (std::ranges::find(strategies, strategy.name, &NamedStrategy::name) != strategies.end())
      return refusal(strategy.name, "is there twice", "name each strategy once");
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

}  // namespace omni
