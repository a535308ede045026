#include "apps/omni-run/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "apps/omni-run/training_arguments.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {
namespace {

constexpr std::string_view kAuto = "auto";

// Reads a number from 0 to 1, or the same in per cent. `between` means that 0 and 1 are refused.
// CLI11's own ranges accept NaN.
std::string read_share(std::string& text, bool between) {
  const bool percent = text.ends_with('%');
  const std::string_view digits = std::string_view(text).substr(0, text.size() - percent);
  const double value = number_in<double>(digits).value_or(-1) / (percent ? 100 : 1);
  if (!(value >= 0 && value <= 1) || (between && (value == 0 || value == 1)))
    return fmt::format("{} is no share {} (0.1, or 10%)", shown_name(text),
                       between ? "between 0 and 1" : "from 0 to 1");
  text = fmt::format("{}", value);
  return "";
}

}  // namespace

std::string share(std::string& value) { return read_share(value, false); }

std::string share_between(std::string& value) { return read_share(value, true); }

void describe_settings(OptionTable& add, NetArguments& net) {
  for (const std::string name :
       {"--batch IMAGES", "--subdivisions COUNT", "--learning-rate RATE", "--momentum SHARE",
        "--decay FACTOR", "--policy NAME", "--max-batches UPDATES", "--burn-in UPDATES"}) {
    std::string key = name.substr(2, name.find(' ') - 2);
    std::ranges::replace(key, '-', '_');
    const auto declared = std::ranges::find(net_keys(), key, &Key::name);
    add(name,
        Taker{.take =
                  [&net, key](const auto& value) {
                    if (net.refused) net.refused = set_named(net.named, key, value);
                  }},
        fmt::format("Override {} of [net]: {}", key, declared->help));
  }
}

std::string group_count(std::string& text) {
  if (text == kAuto || count_in(text, kMostGroups)) return "";
  return fmt::format("{} is neither {} nor a number from 1 to {}", shown_name(text), kAuto,
                     kMostGroups);
}

Taker take_groups(GroupArguments& groups) {
  return {.take = [&groups](const std::string& text) {
    groups.planned = text == kAuto;
    groups.count = groups.planned ? std::nullopt : count_in(text, kMostGroups);
  }};
}

namespace {

constexpr int kMostWeight = 1'000'000;

std::string rank_shares(std::string& text) {
  if (text == kAuto || text == "measured" || text == "equal") return "";
  const auto weights = split(text, ':');
  const bool good = std::ranges::all_of(
      weights, [](std::string_view each) { return count_in(each, kMostWeight).has_value(); });
  if (good && weights.size() > 1) return "";
  return fmt::format("{} is none of auto, measured, equal, and a weight for each rank (2:1:1, say)",
                     shown_name(text));
}

}  // namespace

void describe_rank_shares(OptionTable& add, GroupArguments& groups) {
  using Shares = GroupArguments::Shares;
  const auto take = [&groups](const std::string& text) {
    groups.weights.clear();
    groups.shares = text == kAuto        ? Shares::automatic
                    : text == "measured" ? Shares::measured
                    : text == "equal"    ? Shares::equal
                                         : Shares::given;
    if (groups.shares == Shares::given)
      for (const std::string_view each : split(text, ':'))
        groups.weights.push_back(count_in(each, kMostWeight).value_or(1));
  };
  add("--rank-shares auto|measured|equal|WEIGHTS", Taker{.take = take}, {.check = rank_shares},
      "How ranks share mini-batches and groups. auto (default): by their speeds, which are "
      "measured if ranks are on several hosts, or have unlike workers; measured: by their speeds; "
      "equal; or by weights, as in 2:1:1");
}

namespace {

constexpr std::string_view kTop = "top:";

std::string coding_name(std::string& text) {
  if (text == "fp32" || text == "bf16") return "";
  std::string most = text.starts_with(kTop) ? text.substr(kTop.size()) : "";
  // An entry has an index and a value, so half of the values are as long as all of them.
  if (read_share(most, true) != "" || *number_in<double>(most) >= 0.5)
    return fmt::format("{} is none of fp32, bf16, and top: with a share between 0 and 0.5 (top:1%)",
                       shown_name(text));
  text = fmt::format("{}{}", kTop, most);
  return "";
}

}  // namespace

void describe_send(OptionTable& add, Coding& send, OptionRules rules) {
  const auto take = [&send](const std::string& text) {
    send.kind = text == "fp32"   ? Coding::Kind::whole
                : text == "bf16" ? Coding::Kind::bf16
                                 : Coding::Kind::top;
    if (send.kind == Coding::Kind::top)
      send.share = *number_in<double>(std::string_view(text).substr(kTop.size()));
  };
  rules.check = coding_name;
  add("--send fp32|bf16|top:SHARE", Taker{.take = take}, std::move(rules),
      "What ranks send of gradients, models and new parameters: fp32 (default): all; bf16: "
      "rounded; "
      "top:1%: the hundredth of largest magnitude. The next messages make up for what is left out");
}

std::string strategy_help() {
  std::string names, summaries;
  for (const StrategyType& type : strategy_types()) {
    names += fmt::format(" {}", type.name);
    summaries += fmt::format("; {}: {}", type.name, type.summary);
  }
  return "How groups share what they learn; default: async with several groups, else sync. One "
         "of:" +
         names + summaries;
}

std::string strategy_option_help(const DeclaredOption& option) {
  const auto add = [](std::string& names, std::string_view name) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  };
  std::string users, usual;
  std::map<double, std::string> users_of;  // by usual value
  const std::vector<StrategyType>& types = strategy_types();
  for (auto type = types.rbegin(); type != types.rend(); ++type)
    if (const OptionUse* const use = find_use(*type, option.name)) {
      add(users, type->name);
      if (use->usual) add(users_of[*use->usual], type->name);
    }
  for (const auto& [value, names] : users_of)
    add(usual,
        users_of.size() > 1 ? fmt::format("{} ({})", value, names) : fmt::format("{}", value));
  return fmt::format("{}: {}{}{}", users, option.help, usual.empty() ? "" : "; default: ", usual);
}

void describe_declared(OptionTable& add, const DeclaredOption& option, OptionValues& values,
                       OptionRules rules, std::string help) {
  using Kind = OptionRange::Kind;
  const auto& [kind, least, most] = option.range;
  OptionValue& value = values.by_name[std::string(option.name)];
  Target target = &value.number;
  if (kind == Kind::flag) target = &value.flag;
  if (kind == Kind::text) target = &value.text;
  if (kind == Kind::text) rules.check = not_empty;
  if (kind == Kind::number) rules.check = number(least, most);
  if (kind == Kind::whole)
    rules.check = whole_number(static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(most));
  add(fmt::format("{} {}", option.name, option.value), target, std::move(rules), std::move(help));
}

}  // namespace omni
