#include "scheduling/strategies/averaging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/tasks/submission.hpp"
#include "scheduling/strategies/registry.hpp"
#include "scheduling/strategies/shared_options.hpp"

namespace omni {
namespace {

// The places of saved numbers that do not depend on the number of fragments. The numbers of groups
// follow, two for each, then those of fragments, three for each.
enum Saved : std::size_t { kMeetings, kRate, kRestarts, kAtStart, kEvery, kFirstGroup };

std::size_t since_of(std::size_t group) { return kFirstGroup + 2 * group; }

// Returns true if the policy lowers the rate at some iterations only. Other policies keep it or
// change it with every mini-batch.
bool drops_by_steps(const SolverOptions& solver) {
  return solver.policy == RatePolicy::step || solver.policy == RatePolicy::steps;
}

}  // namespace

bool is_drop(double from, double to) {
  constexpr double kRounding = 1e-6;
  return to < (1 - kRounding) * from;
}

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

Averaging::Averaging(ComputeGroups& groups, const SolverOptions& solver,
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

double Averaging::due_at(const Fragment& fragment, double n) const {
  const double rounds = (n - fragment.offset) / options_.every;
  return rounds >= 0 && rounds == std::floor(rounds) ? rounds + 1 : 0;
}

// A group waits for a meeting that is a restart: its model will become the average.
bool Averaging::may_begin(int group) const {
  const double n = next_of(group);
  const double contributed = n - (meets_together() ? 1 : parts_.delay);  // it takes that average
  return std::ranges::all_of(fragments_, [&](const Fragment& each) {
    return !(each.restarts && n > next_meeting(each)) && each.meetings + 1 >= due_at(each, n) &&
           ((options_.pulls && !meets_together()) || each.meetings >= due_at(each, contributed));
  });
}

Sends Averaging::sends(int group) const {
  const bool contributes = std::ranges::any_of(
      fragments_, [&](const Fragment& each) { return due_at(each, next_of(group)) > 0; });
  return contributes ? Sends::contribution : Sends::nothing;
}

ExchangeArgs Averaging::step(const GroupUpdate& update, std::size_t param) {
  ExchangeArgs args = Strategy::step(update, param);
  args.number = static_cast<std::uint64_t>(progress_[update.batch.group].steps) + 1;
  args.pull = static_cast<float>(options_.pull);
  return args;
}

ExchangeTensors Averaging::stepped(const GroupUpdate& update, std::size_t number) {
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

void Averaging::contribute(int group, std::size_t param) const {
  Strategy::contribute(1.0f / static_cast<float>(count()), group, param,
                       {.priority = kUpdatePriority});
}

void Averaging::submit_behind(const GroupUpdate& update, std::span<const std::size_t> stepped) {
  if (options_.pulls) return;
  const int group = update.batch.group;
  const double n = next_of(group);
  for (const std::size_t number : stepped) {
    if (!params(group)[number]->trainable) continue;
    if (due_at(of(number), n) > 0) contribute(group, number);
    if (!meets_together() && due_at(of(number), n - parts_.delay) > 0)
      publish(group, number, {.priority = kUpdatePriority}, static_cast<float>(parts_.keeps));
  }
}

void Averaging::end(const GroupUpdate& update) {
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

void Averaging::meet(Fragment& fragment) {
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
    if (!fragment.restarts && (options_.pulls || !meets_together())) break;
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
bool Averaging::conclude() {
  bool changes = false;
  for (Fragment& each : fragments_) {
    if (options_.pulls && (meets_together() ? meetings_ : each.meetings) > 0) continue;
    const double applied = next_meeting(each) - options_.every +
                           (meets_together() || each.meetings == 0 ? 0 : parts_.delay);
    const auto [least, most] = std::ranges::minmax(progress_, {}, &Progress::since);
    if (least.since < applied || most.since <= std::max(applied, 0.0)) continue;
    for (const int group : groups_.here())
      for (std::size_t i = 0; i < params(0).size(); ++i)
        if (&of(i) == &each && params(0)[i]->trainable &&
            progress_[group].since < next_meeting(each))  // otherwise it has contributed already
          contribute(group, i);
    meet(each);
    changes = true;
  }
  return changes;
}

std::vector<double> Averaging::numbers() const {
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

void Averaging::take(std::span<const double> numbers) {
  // If the saved interval between meetings is another one, the groups begin a new interval.
  if (numbers[kEvery] != options_.every) return begin_anew(numbers);
  keep(numbers);
  for (std::size_t group = 0; group < progress_.size(); ++group)
    progress_[group].since = numbers[since_of(group)];
  for (std::size_t i = 0; i < fragments_.size(); ++i) {
    const auto saved = numbers.subspan(since_of(progress_.size()) + 3 * i, 3);
    fragments_[i].meetings = saved[0];
    fragments_[i].restarts = saved[1] != 0;
    fragments_[i].at_start = saved[2] != 0;
  }
}

// With local SGD, groups that have contributed their models to the next meeting do so again. With
// SMA, models have been pulled already, so the average takes the pulls at the next meeting.
void Averaging::begin_anew(std::span<const double> saved) {
  const std::size_t first_fragment = since_of(progress_.size());
  // Earlier versions saved no fragments, and counted updates since the last meeting.
  if (meets_together() && saved.size() == first_fragment && saved[kEvery] == options_.every) {
    for (std::size_t group = 0; group < progress_.size(); ++group)
      progress_[group].since = saved[since_of(group)];
    return keep(saved);
  }
  if (saved.size() >= first_fragment && (saved.size() - first_fragment) % 3 == 0) keep(saved);
  if (!options_.pulls) clear_contributions();
}

void Averaging::keep(std::span<const double> numbers) {
  meetings_ = numbers[kMeetings];
  rate_ = numbers[kRate];
  for (Fragment& each : fragments_) {
    each.restarts = numbers[kRestarts] != 0;
    each.at_start = numbers[kAtStart] != 0;
  }
  for (std::size_t group = 0; group < progress_.size(); ++group)
    progress_[group].steps = numbers[since_of(group) + 1];
}

namespace {

constexpr int kUsualSma = 1, kUsualLocal = 16;  // mini-batches between meetings
constexpr DeclaredOption kAlpha{
    "--alpha", "SHARE",
    "share of its distance to the average that a model moves; default: 1 / groups",
    number_from(1e-6, 1)};
constexpr DeclaredOption kOuterRate{"--outer-rate", "RATE", "learning rate of the outer step",
                                    number_from(1e-6, 100)};
constexpr DeclaredOption kOuterMomentum{
    "--outer-momentum", "SHARE", "Nesterov momentum of the outer step", number_from(0, 0.999999)};
constexpr DeclaredOption kFragments{
    "--fragments", "COUNT",
    "meetings are about one of so many fragments of the parameters, one after the other",
    whole_from(1, 1024)};
constexpr DeclaredOption kFragmentDelay{
    "--fragment-delay", "MINI-BATCHES",
    "mini-batches of a group from its contribution about a fragment until it takes the average",
    whole_from(1, 1 << 20)};
constexpr DeclaredOption kFragmentMix{
    "--fragment-mix", "SHARE",
    "share of its own values that a group keeps when it takes the average of a fragment",
    number_from(0, 0.999999)};

MakeStrategy averaging(const AveragingOptions& options, const FragmentOptions& fragments) {
  return [=](ComputeGroups& groups, const SolverOptions& solver) -> std::unique_ptr<Strategy> {
    AveragingOptions own = options;
    own.restarts = drops_by_steps(solver);
    if (own.pulls && own.pull == 0) own.pull = 1.0 / groups.count();
    return std::make_unique<Averaging>(groups, solver, own, fragments);
  };
}

int whole(const StrategyOptions& options, const DeclaredOption& option) {
  return static_cast<int>(options.own.number(option).value_or(1));
}

template <int usual_every>
Status check_fragments(const StrategyOptions& options, bool simulated) {
  const auto refuse = [](const DeclaredOption& option, std::string what, std::string todo) {
    return Error{ErrorKind::usage, std::string(option.name), std::move(what), std::move(todo)};
  };
  const int every = static_cast<int>(options.own.number(kSyncEvery).value_or(usual_every)),
            count = whole(options, kFragments), delay = whole(options, kFragmentDelay);
  if (count == 1) {
    for (const DeclaredOption* each : {&kFragmentDelay, &kFragmentMix})
      if (options.own.given(*each) != nullptr)
        return refuse(*each, "has no effect on meetings about all parameters at once",
                      "add --fragments 4, say");
    return {};
  }
  if (simulated)
    return refuse(kFragments, "the virtual clock knows meetings about all parameters only",
                  "leave it out, or leave out --arrivals virtual");
  if (count > every)
    return refuse(kFragments,
                  fmt::format("{} fragments do not meet in turn within {} mini-batch{}", count,
                              every, every == 1 ? "" : "es"),
                  fmt::format("--sync-every {}, or fewer fragments", count));
  if (delay >= every)
    return refuse(kFragmentDelay,
                  fmt::format("a group would contribute again before it takes the average: it does "
                              "so every {} mini-batches",
                              every),
                  fmt::format("{} is the most", every - 1));
  return {};
}

const StrategyRegistration sma(
    {.name = "sma",
     .summary = "synchronous model averaging (Crossbow): models are pulled to their average",
     .options = {{&kSyncEvery, kUsualSma}, {&kAlpha}, {&kCentralMomentum, 0.9}, {&kFragments, 1}},
     .models = GroupModels::own,
     .least_groups = 2,
     .meetings = {Meetings::Kind::together, kUsualSma},
     .grows = true,
     .check = check_fragments<kUsualSma>,
     .make = [](const StrategyOptions& options) -> MakeStrategy {
       return averaging({.pulls = true,
                         .every = whole(options, kSyncEvery),
                         .pull = options.own.number(kAlpha).value_or(0),
                         .momentum = *options.own.number(kCentralMomentum)},
                        {.count = whole(options, kFragments)});
     }});

const StrategyRegistration local(
    {.name = "local",
     .summary = "local SGD, DiLoCo: models are averaged every few mini-batches, by an outer step",
     .options = {{&kSyncEvery, kUsualLocal},
                 {&kOuterRate, 1},
                 {&kOuterMomentum, 0},
                 {&kFragments, 1},
                 {&kFragmentDelay, 1},
                 {&kFragmentMix, 0.5}},
     .models = GroupModels::own,
     .meetings = {Meetings::Kind::together, kUsualLocal},
     .check = check_fragments<kUsualLocal>,
     .make = [](const StrategyOptions& options) -> MakeStrategy {
       return averaging({.every = whole(options, kSyncEvery),
                         .rate = *options.own.number(kOuterRate),
                         .momentum = *options.own.number(kOuterMomentum)},
                        {.count = whole(options, kFragments),
                         .delay = whole(options, kFragmentDelay),
                         .keeps = *options.own.number(kFragmentMix)});
     }});

}  // namespace
}  // namespace omni
