#include "apps/omni-run/ensemble/sweep/waves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/ensemble/parzen.hpp"

namespace omni {
namespace {

using Values = std::vector<std::string>;

constexpr int kMostDraws = 100;  // from results, for one new member; then chance draws it

Error other_sweep(std::string what) {
  return {ErrorKind::usage, "--sweep", std::move(what),
          "resume with the words of before, or name another --out"};
}

ParzenAxis parzen_axis(const SweepAxis& axis) {
  if (const Values* values = std::get_if<Values>(&axis.values)) return {.choices = values->size()};
  const SweepRange& range = std::get<SweepRange>(axis.values);
  return {
      .low = range.low, .high = range.high, .logarithmic = range.logarithmic, .whole = range.whole};
}

std::string text_of(const SweepAxis& axis, double value) {
  if (const Values* values = std::get_if<Values>(&axis.values))
    return (*values)[static_cast<std::size_t>(value)];
  return written(std::get<SweepRange>(axis.values), value);
}

std::string with_commas(std::string text) {
  std::ranges::replace(text, ' ', ',');
  return text;
}

// Reads the settings in a member's name, such as "lenet,learning_rate=0.01". Returns a number for
// each axis: the value in a range, or the position in a list.
Result<std::vector<double>> settings_in(const std::string& name, const SweepSpec& sweep,
                                        const std::string& net) {
  const Error other = other_sweep(shown_name(name) + " in the run folder is of another sweep");
  std::string_view rest = name;
  if (!rest.starts_with(net)) return other;
  rest.remove_prefix(net.size());
  std::vector<double> settings;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    const SweepAxis& axis = sweep.axes[i];
    const std::string begins = "," + axis.key + "=";
    if (!rest.starts_with(begins)) return other;
    rest.remove_prefix(begins.size());
    // A value may have commas, which were spaces.
    const std::string next = i + 1 < sweep.axes.size() ? "," + sweep.axes[i + 1].key + "=" : "";
    const std::string_view text = rest.substr(0, next.empty() ? rest.size() : rest.find(next));
    rest.remove_prefix(text.size());
    if (const Values* values = std::get_if<Values>(&axis.values)) {
      const auto found = std::ranges::find(*values, text, with_commas);
      if (found == values->end()) return other;
      settings.push_back(static_cast<double>(found - values->begin()));
    } else {
      const SweepRange& range = std::get<SweepRange>(axis.values);
      const auto number = number_in<double>(text);
      if (!number || !(*number >= range.low && *number <= range.high)) return other;
      settings.push_back(*number);
    }
  }
  return settings;
}

bool has_ended(const EnsembleMember& member) {
  return member.state == MemberState::finished || member.state == MemberState::dropped ||
         member.state == MemberState::diverged;
}

ParzenTrial trial_of(const EnsembleMember& member, std::vector<double> settings) {
  const bool diverged = member.state == MemberState::diverged;
  return {.values = std::move(settings),
          .complete = member.state == MemberState::finished,
          .iterations = diverged ? 0 : member.iteration,
          .loss = diverged ? std::numeric_limits<double>::quiet_NaN()
                           : member.loss.value_or(std::numeric_limits<double>::quiet_NaN())};
}

SweepMember member_with(const SweepSpec& sweep, const std::vector<double>& settings) {
  Values values;
  for (std::size_t i = 0; i < settings.size(); ++i)
    values.push_back(text_of(sweep.axes[i], settings[i]));
  return member_of(sweep, values);
}

}  // namespace

Result<SweepWave> next_wave(const SweepSpec& sweep, const std::string& net,
                            const std::vector<EnsembleMember>& begun, std::uint64_t seed) {
  // sweep_members() refuses a sweep that has fewer settings than members.
  OMNI_TRY(std::vector<SweepMember> by_chance, sweep_members(sweep, seed));
  const std::size_t count = *sweep.draws;
  std::vector<std::vector<double>> settings;
  for (const EnsembleMember& each : begun) {
    OMNI_TRY(settings.emplace_back(), settings_in(each.name, sweep, net));
  }
  SweepWave wave;
  std::size_t end = sweep.first_wave;
  while (end <= begun.size() && end < count &&
         std::all_of(begun.begin() + wave.first, begun.begin() + end, has_ended)) {
    wave.first = end;
    end = std::min(count, end + sweep.wave);
  }
  if (begun.size() != wave.first && begun.size() != end)
    return other_sweep(
        fmt::format("the {} members in the run folder have begun in other waves", begun.size()));
  wave.is_last = end == count;
  if (begun.size() == end) {
    for (std::size_t i = wave.first; i < end; ++i)
      wave.members.push_back(member_with(sweep, settings[i]));
    return wave;
  }
  if (wave.first == 0) {
    by_chance.resize(end);
    wave.members = std::move(by_chance);
    return wave;
  }
  std::vector<ParzenAxis> axes;
  std::ranges::transform(sweep.axes, std::back_inserter(axes), parzen_axis);
  std::vector<ParzenTrial> ended;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < begun.size(); ++i) {
    ended.push_back(trial_of(begun[i], settings[i]));
    seen.insert(member_with(sweep, settings[i]).name);
  }
  std::vector<std::vector<double>> running;
  for (std::size_t i = wave.first; i < end; ++i) {
    Draws draws(Philox(seed, RandomStream::parzen), i);
    for (int tries = 0; wave.members.size() == i - wave.first; ++tries) {
      // Where few settings are left, the likeliest ones are there already.
      const bool learns = tries < kMostDraws;
      std::vector<double> drawn =
          parzen_draw(axes, learns ? ended : std::vector<ParzenTrial>(),
                      learns ? running : std::vector<std::vector<double>>(), draws);
      SweepMember member = member_with(sweep, drawn);
      if (!seen.insert(member.name).second) continue;
      wave.members.push_back(std::move(member));
      running.push_back(std::move(drawn));
    }
  }
  return wave;
}

}  // namespace omni
