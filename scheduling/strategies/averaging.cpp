#include "scheduling/strategies/averaging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/tasks/submission.hpp"
#include "scheduling/strategies/fragmented.hpp"
#include "scheduling/strategies/registry.hpp"
#include "scheduling/strategies/shared_options.hpp"

namespace omni {

bool is_drop(double from, double to) {
  constexpr double kRounding = 1e-6;
  return to < (1 - kRounding) * from;
}

namespace {

// Returns true if the policy lowers the rate at some iterations only. Other policies keep it or
// change it with every mini-batch.
bool drops_by_steps(const SolverOptions& solver) {
  return solver.policy == RatePolicy::step || solver.policy == RatePolicy::steps;
}

}  // namespace

bool Averaging::may_begin(int group) const {
  return progress_[group].since_meeting < options_.every;
}

ExchangeArgs Averaging::step(const GroupUpdate& update, std::size_t param) {
  ExchangeArgs args = Strategy::step(update, param);
  args.number = static_cast<std::uint64_t>(of(update).steps) + 1;
  args.pull = static_cast<float>(options_.pull);
  return args;
}

ExchangeTensors Averaging::stepped(const GroupUpdate& update, std::size_t number) {
  const Param& param = *params(update.batch.group)[number];
  const bool pulled = options_.pulls && meets(update);
  return {*param.replica,
          *param.diff,
          *param.velocity,
          nullptr,
          param.mean_square,
          pulled ? param.master : nullptr,
          pulled ? param.change : nullptr};
}

void Averaging::contribute(int group, std::span<const std::size_t> numbers) {
  for (const std::size_t number : numbers)
    if (params(group)[number]->trainable)
      Strategy::contribute(1.0f / static_cast<float>(count()), group, number,
                           {.priority = kUpdatePriority});
}

// With SMA (synchronous model averaging) the average has followed the models at meetings, so there
// is nothing to merge unless they never met.
bool Averaging::conclude() {
  const bool open =
      std::ranges::any_of(progress_, [](const Progress& group) { return group.since_meeting > 0; });
  if (!open || (options_.pulls && meetings_ > 0)) return false;
  std::vector<std::size_t> all(params(0).size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (int group = 0; group < count(); ++group)
    if (groups_.is_here(group) && may_begin(group))  // otherwise it has contributed already
      contribute(group, all);
  meet();
  return true;
}

void Averaging::end(const GroupUpdate& update) {
  Progress& own = progress_[update.batch.group];
  ++own.since_meeting;
  ++own.steps;
  const auto rate = static_cast<double>(update.rule.learning_rate);
  restarts_ = restarts_ || (options_.restarts && is_drop(rate_, rate));
  rate_ = rate;
  if (std::ranges::none_of(progress_, [this](const Progress& group) {
        return group.since_meeting < options_.every;
      }))
    meet();
}

void Averaging::meet() {
  const TaskTag tag{.priority = kUpdatePriority};
  const MoveCentreArgs move{.rate = static_cast<float>(options_.rate),
                            .momentum = at_start_ ? 0 : static_cast<float>(options_.momentum),
                            .nesterov = !options_.pulls};
  for (std::size_t i = 0; i < params(0).size(); ++i)
    if (params(0)[i]->trainable) move_centre(move, i, tag);
  at_start_ = restarts_;
  for (const int group : groups_.here()) {
    if (options_.pulls && !restarts_) break;
    const SubmissionScope scope({.group = group, .workers = &groups_.workers(group)});
    for (std::size_t i = 0; i < params(group).size(); ++i)
      if (params(group)[i]->trainable) publish(group, i, tag);
  }
  restarts_ = false;
  record_meeting(meetings_);
  ++meetings_;
  for (Progress& group : progress_) group.since_meeting = 0;
}

std::vector<double> Averaging::numbers() const {
  std::vector<double> all{meetings_, rate_, restarts_ ? 1.0 : 0.0, at_start_ ? 1.0 : 0.0,
                          static_cast<double>(options_.every)};
  for (const Progress& group : progress_) all.insert(all.end(), {group.since_meeting, group.steps});
  return all;
}

void Averaging::take(std::span<const double> numbers) {
  // If the saved interval between meetings is another one, the groups begin a new interval.
  if (numbers[Saved::every] != options_.every) return begin_anew(numbers);
  keep(numbers);
  for (std::size_t group = 0; group < progress_.size(); ++group)
    progress_[group].since_meeting = numbers[Saved::since(group)];
}

// With local SGD, groups that have contributed their models to the next meeting do so again. With
// SMA, models have been pulled already, so the average takes the pulls at the next meeting.
void Averaging::begin_anew(std::span<const double> saved) {
  if (Saved::fit(saved, progress_.size())) keep(saved);
  if (!options_.pulls) clear_contributions();
}

void Averaging::keep(std::span<const double> numbers) {
  meetings_ = numbers[Saved::meetings];
  rate_ = numbers[Saved::rate];
  restarts_ = numbers[Saved::restarts] != 0;
  at_start_ = numbers[Saved::at_start] != 0;
  for (std::size_t group = 0; group < progress_.size(); ++group)
    progress_[group].steps = numbers[Saved::steps(group)];
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
    if (fragments.count == 1) return std::make_unique<Averaging>(groups, solver, own);
    return std::make_unique<Fragmented>(groups, solver, own, fragments);
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
