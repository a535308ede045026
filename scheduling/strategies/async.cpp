#include "scheduling/strategies/async.hpp"

#include "scheduling/strategies/registry.hpp"

namespace omni {

Async::Async(ComputeGroups& groups, const SolverOptions& solver, Asynchrony asynchrony,
             Momentum momentum)
    : Strategy(groups, solver),
      // With subdivisions an update has several passes, whose order the data must keep.
      in_order_(groups.count() == 1 || asynchrony == Asynchrony::reproducible ||
                !groups.has_replicated_phase() || groups.net().options().subdivisions > 1),
      momentum_(momentum),
      watched_(groups.watched()),
      versions_(params(0).size()) {
  for (int group = 0; group < count(); ++group) {
    std::deque<SeenVersion>& seen = seen_.emplace_back(versions_.size());
    for (std::size_t i = 0; i < versions_.size(); ++i) seen[i].count = &versions_[i];
  }
}

void Async::begin(const GroupUpdate& update) {
  const int group = update.batch.group;
  const Net& net = groups_.net(group);
  const std::vector<Param*>& all = params(group);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i]->trainable && net.is_merged(*all[i])) note_read(seen_[group][i], *all[i]->master);
}

ExchangeArgs Async::step(const GroupUpdate& update, std::size_t number) {
  ExchangeArgs args = Strategy::step(update, number);
  const int group = update.batch.group;
  const bool merged = groups_.net(group).is_merged(*params(group)[number]);
  args.learning_rate *= static_cast<float>(momentum_.rate_factor());
  args.reports = merged               ? Staleness::merged
                 : watched_ == number ? Staleness::replicated
                                      : Staleness::unwatched;
  args.seen = &seen_[group][number];
  return args;
}

std::vector<double> Async::numbers() const {
  std::vector<double> ages(seen_.size());
  for (std::size_t group = 0; watched_ && group < ages.size(); ++group) {
    const SeenVersion& seen = seen_[group][*watched_];
    ages[group] = static_cast<double>(*seen.count - seen.version);
  }
  return ages;
}

void Async::take(std::span<const double> ages) {
  for (std::size_t group = 0; group < seen_.size(); ++group)
    for (SeenVersion& seen : seen_[group])
      seen.version = *seen.count - static_cast<std::int64_t>(ages[group]);
}

MakeStrategy async(Asynchrony asynchrony, Compensation compensation) {
  return [=](ComputeGroups& groups, const SolverOptions& solver) {
    return std::make_unique<Async>(groups, solver, asynchrony,
                                   momentum_of_groups(compensation, solver.momentum, groups.count(),
                                                      groups.watched().has_value()));
  };
}

namespace {

const StrategyRegistration sync_registration(
    {.name = "sync",
     .summary = "one group: all workers share each mini-batch",
     .most_groups = 1,
     .usual_groups = 1,
     .saved_as = "async",
     .make = [](const StrategyOptions&) { return async(Asynchrony::reproducible); }});

const StrategyRegistration async_registration(
    {.name = "async",
     .summary = "groups update one model as their gradients arrive, with compensated momentum",
     .uses = {"--async", "--momentum-compensation", "--fc", "--cold-start", "--guard", "--auto",
              "--groups auto"},
     .usual_groups = 1,
     .make = [](const StrategyOptions& options) {
       return async(options.in_order ? Asynchrony::reproducible
                                     : options.asynchrony.value_or(Asynchrony::free),
                    options.compensation.value_or(Compensation::theory));
     }});

}  // namespace
}  // namespace omni
