#include "scheduling/strategies/fragmented.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/tasks/submission.hpp"

namespace omni {

std::vector<int> deal_fragments(std::span<const std::size_t> values, int fragments) {
  std::vector<std::size_t> order(values.size()), dealt(static_cast<std::size_t>(fragments));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return values[i]; });
  std::vector<int> fragment_of(values.size());
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(dealt);
    *least += values[i];
    fragment_of[i] = static_cast<int>(least - dealt.begin());
  }
  return fragment_of;
}

Fragmented::Fragmented(ComputeGroups& groups, const SolverOptions& solver,
                       const AveragingOptions& options, const FragmentOptions& fragments)
    : Strategy(groups, solver),
      options_(options),
      parts_(fragments),
      progress_(static_cast<std::size_t>(groups.count())) {
  std::vector<std::size_t> values;
  for (const Param* param : params(0))
    values.push_back(param->trainable ? param->master->count() : 0);
  fragment_of_ = deal_fragments(values, parts_.count);
  for (int i = 1; i <= parts_.count; ++i)
    fragments_.push_back({.offset = i * options_.every / parts_.count});
}

double Fragmented::due_at(const Fragment& fragment, double n) const {
  const double rounds = (n - fragment.offset) / options_.every;
  return rounds >= 0 && rounds == std::floor(rounds) ? rounds + 1 : 0;
}

// A group waits for a meeting that is a restart: its model will become the average.
bool Fragmented::may_begin(int group) const {
  const double n = next_of(group);
  return std::ranges::all_of(fragments_, [&](const Fragment& each) {
    return !(each.restarts && n > next_meeting(each)) && each.meetings + 1 >= due_at(each, n) &&
           (options_.pulls || each.meetings >= due_at(each, n - parts_.delay));
  });
}

Sends Fragmented::sends(int group) const {
  const bool contributes = std::ranges::any_of(
      fragments_, [&](const Fragment& each) { return due_at(each, next_of(group)) > 0; });
  return contributes ? Sends::contribution : Sends::nothing;
}

ExchangeArgs Fragmented::step(const GroupUpdate& update, std::size_t param) {
  ExchangeArgs args = Strategy::step(update, param);
  args.number = static_cast<std::uint64_t>(progress_[update.batch.group].steps) + 1;
  args.pull = static_cast<float>(options_.pull);
  return args;
}

ExchangeTensors Fragmented::stepped(const GroupUpdate& update, std::size_t number) {
  const Param& param = *params(update.batch.group)[number];
  const bool pulled = options_.pulls && due_at(of(number), next_of(update.batch.group)) > 0;
  return {*param.replica,
          *param.diff,
          *param.velocity,
          nullptr,
          param.mean_square,
          pulled ? param.master : nullptr,
          pulled ? param.change : nullptr};
}

void Fragmented::submit_behind(const GroupUpdate& update, std::span<const std::size_t> stepped) {
  if (options_.pulls) return;
  const TaskTag tag{.priority = kUpdatePriority};
  const int group = update.batch.group;
  const double n = next_of(group);
  for (const std::size_t number : stepped) {
    if (!params(group)[number]->trainable) continue;
    if (due_at(of(number), n) > 0)
      contribute(1.0f / static_cast<float>(count()), group, number, tag);
    if (due_at(of(number), n - parts_.delay) > 0)
      publish(group, number, tag, static_cast<float>(parts_.keeps));
  }
}

void Fragmented::end(const GroupUpdate& update) {
  Progress& own = progress_[update.batch.group];
  ++own.since;
  ++own.steps;
  const auto rate = static_cast<double>(update.rule.learning_rate);
  const bool drops = options_.restarts && is_drop(rate_, rate);
  rate_ = rate;
  for (Fragment& each : fragments_) each.restarts = each.restarts || drops;
  for (Fragment& each : fragments_)
    if (std::ranges::all_of(
            progress_, [&](const Progress& group) { return group.since >= next_meeting(each); }))
      meet(each);
}

void Fragmented::meet(Fragment& fragment) {
  const TaskTag tag{.priority = kUpdatePriority};
  const MoveCentreArgs move{
      .rate = static_cast<float>(options_.rate),
      .momentum = fragment.at_start ? 0 : static_cast<float>(options_.momentum),
      .nesterov = !options_.pulls};
  const auto for_each_param = [&](auto use) {
    for (std::size_t i = 0; i < params(0).size(); ++i)
      if (&of(i) == &fragment && params(0)[i]->trainable) use(i);
  };
  for_each_param([&](std::size_t i) { move_centre(move, i, tag); });
  for (const int group : groups_.here()) {
    if (!fragment.restarts) break;
    const SubmissionScope scope({.group = group, .workers = &groups_.workers(group)});
    for_each_param([&](std::size_t i) { publish(group, i, tag); });
  }
  fragment.at_start = fragment.restarts;
  fragment.restarts = false;
  ++fragment.meetings;
  record_meeting(meetings_++);
}

// A fragment whose last meeting some group has not applied yet is left out: its average has all but
// the last mini-batches. With SMA the average has followed the models, unless they never met.
bool Fragmented::conclude() {
  bool changes = false;
  for (Fragment& each : fragments_) {
    const double applied =
        next_meeting(each) - options_.every + (each.meetings > 0 ? parts_.delay : 0);
    const bool open = std::ranges::all_of(
        progress_, [&](const Progress& group) { return group.since > applied && group.since > 0; });
    if (!open || (options_.pulls && each.meetings > 0)) continue;
    for (const int group : groups_.here())
      for (std::size_t i = 0; i < params(0).size(); ++i)
        if (&of(i) == &each && params(0)[i]->trainable &&
            (options_.pulls || progress_[group].since < next_meeting(each)))
          contribute(1.0f / static_cast<float>(count()), group, i, {.priority = kUpdatePriority});
    meet(each);
    changes = true;
  }
  return changes;
}

std::vector<double> Fragmented::numbers() const {
  const auto any = [this](bool Fragment::*has) {
    return std::ranges::any_of(fragments_, has) ? 1.0 : 0.0;
  };
  std::vector<double> all{meetings_, rate_, any(&Fragment::restarts), any(&Fragment::at_start),
                          static_cast<double>(options_.every)};
  for (const Progress& group : progress_) all.insert(all.end(), {group.since, group.steps});
  for (const Fragment& each : fragments_)
    all.insert(all.end(), {each.meetings, each.restarts ? 1.0 : 0.0, each.at_start ? 1.0 : 0.0});
  return all;
}

void Fragmented::take(std::span<const double> numbers) {
  if (numbers[Saved::every] != options_.every) return begin_anew(numbers);
  keep(numbers);
  for (std::size_t group = 0; group < progress_.size(); ++group)
    progress_[group].since = numbers[Saved::since(group)];
  for (std::size_t i = 0; i < fragments_.size(); ++i) {
    const auto saved = numbers.subspan(Saved::fragment(progress_.size(), i), 3);
    fragments_[i].meetings = saved[0];
    fragments_[i].restarts = saved[1] != 0;
    fragments_[i].at_start = saved[2] != 0;
  }
}

// Groups begin a new interval, as with Averaging::begin_anew().
void Fragmented::begin_anew(std::span<const double> saved) {
  if (Saved::fit(saved, progress_.size())) keep(saved);
  if (!options_.pulls) clear_contributions();
}

void Fragmented::keep(std::span<const double> numbers) {
  meetings_ = numbers[Saved::meetings];
  rate_ = numbers[Saved::rate];
  for (Fragment& each : fragments_) {
    each.restarts = numbers[Saved::restarts] != 0;
    each.at_start = numbers[Saved::at_start] != 0;
  }
  for (std::size_t group = 0; group < progress_.size(); ++group)
    progress_[group].steps = numbers[Saved::steps(group)];
}

}  // namespace omni
