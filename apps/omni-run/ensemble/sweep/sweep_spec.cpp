#include "apps/omni-run/ensemble/sweep/sweep_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "layers/formats/darknet/darknet.hpp"
#include "runtime/nearest.hpp"
#include "runtime/number_in.hpp"
#include "runtime/rng.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {
namespace {

using Values = std::vector<std::string>;

constexpr double kMostWhole = 1e15;        // a double has all whole numbers up to it
constexpr std::size_t kMostByChance = 10;  // in the first wave of members
constexpr int kMostTries = 100'000;        // to draw a member that is not there yet

Error refuse_sweep(std::string_view key, std::string what, std::string hint) {
  return {ErrorKind::usage, key.empty() ? "--sweep" : fmt::format("--sweep {}", key),
          std::move(what), std::move(hint)};
}

// Returns "learning_rate" for the row of --learning-rate; "": it is no option.
std::string key_of(const OptionRow& row) {
  const std::size_t dashes = row.name.find("--");
  if (dashes == row.name.npos) return "";
  std::string key = row.name.substr(dashes + 2);
  std::ranges::replace(key, '-', '_');
  return key;
}

const OptionRow* find_row(const OptionTable& options, std::string_view key) {
  const auto row = std::ranges::find(options.rows(), key, key_of);
  return row == options.rows().end() ? nullptr : &*row;
}

Error unknown_key(std::string_view key, const OptionTable& options) {
  Values names;
  for (const OptionRow& row : options.rows()) names.push_back(key_of(row));
  std::vector<std::string_view> candidates(names.begin(), names.end());
  for (const Key& each : net_keys()) candidates.push_back(each.name);
  const std::string_view like = nearest(key, candidates);
  return refuse_sweep("", shown_name(key) + " is neither an option of a member nor a key of [net]",
                      like.empty() ? "learning_rate=0.01,0.1, say"
                                   : fmt::format("did you mean {}?", shown_name(like)));
}

std::optional<double> finite_in(std::string_view text) {
  const auto number = number_in<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

bool is_whole(std::string_view text) {
  const auto number = number_in<std::int64_t>(text);
  return number && std::abs(static_cast<double>(*number)) <= kMostWhole;
}

// Writes a number in one way, however the user has written it: 1e-3 becomes 0.001. Whole numbers
// and words stay as they are.
std::string usual(std::string_view text) {
  const bool whole = number_in<std::int64_t>(text) || number_in<std::uint64_t>(text);
  const auto number = finite_in(text);
  return number && !whole ? fmt::format("{}", *number) : std::string(text);
}

// `share` goes from 0, the low end, to 1.
double at_share(const SweepRange& range, double share) {
  return range.logarithmic ? range.low * std::pow(range.high / range.low, share)
                           : range.low + (range.high - range.low) * share;
}

// Parses "1..4", or what follows "log:" or "lin:" (`scaled`).
Result<SweepRange> parse_range(std::string_view key, std::string_view text, bool scaled,
                               bool logarithmic) {
  const std::string usage = logarithmic ? "log:1e-4..1e-1:8" : "lin:0.1..0.9:5";
  const std::size_t dots = text.find(".."), colon = std::min(text.find(':'), text.size());
  if (dots == text.npos || dots > colon)
    return refuse_sweep(key, shown_name(text) + " has no two ends", usage);
  const std::string low(text.substr(0, dots)), high(text.substr(dots + 2, colon - dots - 2));
  for (const std::string& end : {low, high})
    if (!finite_in(end)) return refuse_sweep(key, shown_name(end) + " is no number", usage);
  SweepRange range{*finite_in(low), *finite_in(high), logarithmic, is_whole(low) && is_whole(high)};
  if (!(range.low < range.high))
    return refuse_sweep(key, fmt::format("{} is not below {}", low, high), "the lower end first");
  if (logarithmic && range.low <= 0)
    return refuse_sweep(key, low + " has no logarithm", "begin above 0, or use lin:");
  if (!std::isfinite(range.high - range.low) ||
      (logarithmic && !std::isfinite(range.high / range.low)))
    return refuse_sweep(key, "the range is too wide", usage);
  if (!scaled) {
    if (!range.whole)
      return refuse_sweep(key, fmt::format("{} lacks the spacing of its values", shown_name(text)),
                          fmt::format("log:{0}:8 or lin:{0}:8", text));
    for (double each = range.low; each <= range.high && range.values.size() <= kMostMembers; ++each)
      range.values.push_back(written(range, each));
    if (range.values.size() > kMostMembers) range.values.clear();
    return range;
  }
  if (colon == text.size()) return range;
  const auto count = count_in(text.substr(colon + 1), kMostMembers);
  if (!count || *count < 2)
    return refuse_sweep(key,
                        fmt::format("{} is no number of values from 2 to {}",
                                    shown_name(text.substr(colon + 1)), kMostMembers),
                        usage);
  range.values = {usual(low)};
  for (int k = 1; k < *count - 1; ++k)
    range.values.push_back(written(range, at_share(range, static_cast<double>(k) / (*count - 1))));
  range.values.push_back(usual(high));
  return range;
}

Result<SweepAxis> parse_values(SweepAxis axis, std::string_view text) {
  const bool logarithmic = text.starts_with("log:");
  const bool scaled = logarithmic || text.starts_with("lin:");
  const std::size_t dots = text.find("..");
  if (scaled ||
      (dots != text.npos && finite_in(text.substr(0, dots)) && finite_in(text.substr(dots + 2)))) {
    OMNI_TRY(SweepRange range,
             parse_range(axis.key, text.substr(scaled ? 4 : 0), scaled, logarithmic));
    axis.values = std::move(range);
    return axis;
  }
  Values values;
  for (const std::string_view each : split(text, ',')) values.push_back(usual(each));
  axis.values = std::move(values);
  return axis;
}

// Returns what is wrong with a value, as far as the row of its option knows.
std::string wrong_with(const SweepAxis& axis, const OptionRow* row, std::string value) {
  if (row == nullptr) return "";
  if (row->rules.check)
    if (std::string wrong = row->rules.check(value); !wrong.empty()) return wrong;
  const auto& words = row->rules.words;
  if (!words.empty() && std::ranges::find(words, value) == words.end())
    return fmt::format("{} is none of: {}", shown_name(value), fmt::join(words, " "));
  const Target& target = row->target;
  const bool real = std::holds_alternative<double*>(target) ||
                    std::holds_alternative<std::optional<double>*>(target);
  const bool whole = std::holds_alternative<int*>(target) ||
                     std::holds_alternative<std::optional<int>*>(target) ||
                     std::holds_alternative<std::uint64_t*>(target) ||
                     std::holds_alternative<std::optional<std::uint64_t>*>(target);
  if (whole && !number_in<std::int64_t>(value) && !number_in<std::uint64_t>(value))
    return shown_name(value) + " is no whole number";
  if (real && !number_in<double>(value)) return shown_name(value) + " is no number";
  // An option that stands for a key of [net] is checked as the key is.
  if (std::holds_alternative<Taker>(target) && words.empty() &&
      std::ranges::find(net_keys(), axis.key, &Key::name) != net_keys().end()) {
    NamedOptions named;
    if (const Status status = set_named(named, axis.key, value); !status)
      return status.error().what;
  }
  return "";
}

Status check_axis(const SweepAxis& axis, const OptionRow* row) {
  const SweepRange* const range = std::get_if<SweepRange>(&axis.values);
  const Values& values = range != nullptr ? range->values : std::get<Values>(axis.values);
  std::set<std::string> seen;
  for (const std::string& value : values) {
    if (value.empty())
      return refuse_sweep(axis.key, "a value is empty", fmt::format("{}=A,B", axis.key));
    if (const std::string wrong = wrong_with(axis, row, value); !wrong.empty())
      return refuse_sweep(axis.key, wrong, "choose other values");
    const auto number = finite_in(value);
    if (!seen.insert(number ? fmt::format("{}", *number) : value).second)
      return refuse_sweep(axis.key, shown_name(value) + " is there twice",
                          range != nullptr
                              ? "ask for fewer values, or write an end as 1.0 to get fractions"
                              : "name each value once");
  }
  // Drawn values lie between the ends, so it suffices to check the ends.
  if (range != nullptr && values.empty())
    for (const double end : {range->low, range->high})
      if (const std::string wrong = wrong_with(axis, row, written(*range, end)); !wrong.empty())
        return refuse_sweep(axis.key, wrong, "choose other ends");
  return {};
}

// Returns the number of values that can be drawn; infinite for real numbers.
double size_of(const SweepAxis& axis) {
  if (const Values* values = std::get_if<Values>(&axis.values))
    return static_cast<double>(values->size());
  const SweepRange& range = std::get<SweepRange>(axis.values);
  return range.whole ? range.high - range.low + 1 : INFINITY;
}

std::string drawn(const SweepAxis& axis, Draws& draws) {
  if (const Values* values = std::get_if<Values>(&axis.values))
    return (*values)[draws.below(static_cast<std::uint32_t>(values->size()))];
  const SweepRange& range = std::get<SweepRange>(axis.values);
  const double high = draws.bits(), share = (high + draws.bits() * 0x1p-32) * 0x1p-32;
  if (range.whole && !range.logarithmic)
    return written(range, std::floor(range.low + share * size_of(axis)));
  return written(range, at_share(range, share));
}

}  // namespace

std::string written(const SweepRange& range, double number) {
  if (range.whole)
    return fmt::format("{}", std::llround(std::clamp(number, range.low, range.high)));
  const double rounded = *finite_in(fmt::format("{:.6g}", number));
  return fmt::format("{}", std::clamp(rounded, range.low, range.high));
}

SweepMember member_of(const SweepSpec& sweep, const Values& values) {
  SweepMember member;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const SweepAxis& axis = sweep.axes[k];
    const std::string setting = axis.key + "=" + values[k];
    member.name += (k > 0 ? " " : "") + setting;
    if (axis.option.empty())
      member.words.insert(member.words.end(), {"--set", setting});
    else
      member.words.push_back(axis.option + "=" + values[k]);
  }
  return member;
}

Result<SweepSpec> parse_sweep(const std::vector<std::string>& words, const OptionTable& options) {
  SweepSpec sweep;
  bool searches = false;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const bool learns = word.starts_with("tpe:");
    if (equals == word.npos && (word == "grid" || learns || word.starts_with("random:"))) {
      if (std::exchange(searches, true))
        return refuse_sweep("", shown_name(word) + " is a second way to search", "leave one out");
      if (word == "grid") continue;
      const std::string_view counts = std::string_view(word).substr(word.find(':') + 1);
      const std::size_t colon = learns ? std::min(counts.find(':'), counts.size()) : counts.size();
      const auto count = count_in(counts.substr(0, colon), kMostMembers);
      if (!count)
        return refuse_sweep(
            "", fmt::format("{} does not name 1 to {} members", shown_name(word), kMostMembers),
            learns ? "tpe:20" : "random:20");
      sweep.draws = *count;
      if (!learns) continue;
      sweep.first_wave = std::min(kMostByChance, (*sweep.draws + 1) / 2);
      sweep.wave = std::max<std::size_t>(2, *sweep.draws / 8);
      if (colon == counts.size()) continue;
      const auto wave = count_in(counts.substr(colon + 1), *count);
      if (!wave)
        return refuse_sweep(
            "", fmt::format("{} does not name waves of 1 to {} members", shown_name(word), *count),
            "tpe:20:4");
      sweep.wave = *wave;
      continue;
    }
    if (equals == word.npos || equals == 0)
      return refuse_sweep("",
                          shown_name(word) + " is neither KEY=VALUES, random:COUNT nor tpe:COUNT",
                          "learning_rate=0.01,0.1, say");
    SweepAxis axis{.key = word.substr(0, equals), .option = {}, .values = {}};
    const OptionRow* const row = find_row(options, axis.key);
    if (row == nullptr && std::ranges::find(net_keys(), axis.key, &Key::name) == net_keys().end())
      return unknown_key(axis.key, options);
    if (row != nullptr && std::holds_alternative<bool*>(row->target))
      return refuse_sweep(axis.key, "is an option without a value", "give it to all members");
    if (row != nullptr) axis.option = row->name.substr(row->name.find("--"));
    if (std::ranges::find(sweep.axes, axis.key, &SweepAxis::key) != sweep.axes.end())
      return refuse_sweep(axis.key, "is there twice", "name all its values in one word");
    OMNI_TRY(axis, parse_values(std::move(axis), std::string_view(word).substr(equals + 1)));
    OMNI_CHECK(check_axis(axis, row));
    sweep.axes.push_back(std::move(axis));
  }
  if (sweep.axes.empty())
    return refuse_sweep("", "names no values", "learning_rate=log:1e-4..1e-1:8, say");
  return sweep;
}

Result<std::vector<SweepMember>> sweep_members(const SweepSpec& sweep, std::uint64_t seed) {
  std::vector<SweepMember> members;
  if (sweep.draws) {
    double size = 1;
    for (const SweepAxis& axis : sweep.axes) size *= size_of(axis);
    const Error small =
        refuse_sweep("", fmt::format("there are no {} different settings", *sweep.draws),
                     sweep.wave > 0 ? "draw fewer" : "draw fewer, or leave random out");
    if (static_cast<double>(*sweep.draws) > size) return small;
    std::set<std::string> seen;
    for (std::uint64_t i = 0; i < *sweep.draws; ++i) {
      Draws draws(Philox(seed, RandomStream::sweep), i);
      for (int tries = 0; members.size() == i; ++tries) {
        if (tries == kMostTries) return small;
        Values values;
        for (const SweepAxis& axis : sweep.axes) values.push_back(drawn(axis, draws));
        SweepMember member = member_of(sweep, values);
        if (seen.insert(member.name).second) members.push_back(std::move(member));
      }
    }
    return members;
  }
  std::vector<Values> grid{{}};
  for (const SweepAxis& axis : sweep.axes) {
    const SweepRange* const range = std::get_if<SweepRange>(&axis.values);
    const Values& values = range != nullptr ? range->values : std::get<Values>(axis.values);
    if (values.empty())
      return refuse_sweep(axis.key,
                          size_of(axis) > kMostMembers && range->whole && !range->logarithmic
                              ? fmt::format("the range has more than {} values", kMostMembers)
                              : "the range has no number of values",
                          "add one, as in lin:0.1..0.9:5, or draw members by random:COUNT");
    if (grid.size() * values.size() > kMostMembers)
      return refuse_sweep("", fmt::format("makes more than {} members", kMostMembers),
                          "name fewer values, or draw some members by random:COUNT");
    std::vector<Values> longer;
    for (const Values& begun : grid)
      for (const std::string& value : values) {
        longer.push_back(begun);
        longer.back().push_back(value);
      }
    grid = std::move(longer);
  }
  for (const Values& values : grid) members.push_back(member_of(sweep, values));
  return members;
}

}  // namespace omni
