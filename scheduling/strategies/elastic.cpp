#include "scheduling/strategies/elastic.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/host_access.hpp"
#include "scheduling/strategies/shared_options.hpp"

namespace omni {
namespace {

bool all_equal(std::span<const double> values) {
  return std::ranges::all_of(values, [&](double value) { return value == values.front(); });
}

}  // namespace

std::vector<double> merge_weights(std::span<const double> updates,
                                  std::span<const double> batches) {
  const std::span<const double> by = all_equal(updates) ? batches : updates;
  const double sum = std::accumulate(by.begin(), by.end(), 0.0);
  std::vector<double> weights;
  for (const double number : by) weights.push_back(number / sum);
  return weights;
}

double BatchScaling::next(double batch, double updates_ahead) const {
  return std::clamp(batch + unit * std::round(step * updates_ahead / unit), least, most);
}

Elastic::Elastic(ComputeGroups& groups, const SolverOptions& solver, bool in_order,
                 ElasticOptions options)
    : Strategy(groups, solver), one_after_another_(in_order), options_(options) {
  const double unit = groups.net().slices().images_of_all();
  const double most = groups.net().options().batch;
  const double least = std::max(std::floor(most / 8 / unit), 1.0) * unit;
  scaling_ = {.least = least, .most = most, .step = least / 2, .unit = unit};
  members_.resize(groups.count(), {.batch = most});
}

// The rate is proportional to the size of the mini-batch. The last mini-batches before models are
// averaged may be smaller.
UpdateRule Elastic::rule(const MiniBatch& batch, float learning_rate) const {
  const double share = static_cast<double>(batch.count) / scaling_.most;
  return {learning_rate * static_cast<float>(share),
          options_.momentum > 0 ? Momentum() : own_momentum()};
}

ExchangeArgs Elastic::step(const GroupUpdate& update, std::size_t param) {
  ExchangeArgs args = Strategy::step(update, param);
  const Member& own = members_[update.batch.group];
  args.number = static_cast<std::uint64_t>(own.steps) + 1;
  return args;
}

ExchangeTensors Elastic::stepped(const GroupUpdate& update, std::size_t number) {
  const Param& param = *params(update.batch.group)[number];
  return {*param.replica, *param.diff, *param.velocity, nullptr, param.mean_square};
}

void Elastic::end(const GroupUpdate& update) {
  Member& own = members_[update.batch.group];
  ++own.updates;
  ++own.steps;
}

void Elastic::meet_at_rest() {
  std::vector<double> updates, batches;
  for (const Member& member : members_) {
    updates.push_back(member.updates);
    batches.push_back(member.batch);
  }
  const std::vector<double> weights = merge_weights(updates, batches);
  const MoveCentreArgs move{.momentum = meetings_ == 0 ? 0 : static_cast<float>(options_.momentum)};
  for (std::size_t i = 0; i < params(0).size(); ++i) {
    const Param& shared = *params(0)[i];
    if (!shared.trainable) continue;
    for (const int group : groups_.here()) contribute(static_cast<float>(weights[group]), group, i);
    move_centre(move, i);
    for (const int group : groups_.here()) publish(group, i);
  }
  const double mean = std::accumulate(updates.begin(), updates.end(), 0.0) / count();
  for (Member& member : members_) {
    member.batch = scaling_.next(member.batch, member.updates - mean);
    member.updates = 0;
  }
  record_meeting(meetings_);
  ++meetings_;
}

bool Elastic::conclude() {
  const bool open =
      std::ranges::any_of(members_, [](const Member& member) { return member.updates > 0; });
  if (open) meet_at_rest();
  return open;
}

std::vector<double> Elastic::numbers() const {
  std::vector<double> all{meetings_};
  for (const Member& member : members_)
    all.insert(all.end(), {member.batch, member.updates, member.steps});
  return all;
}

void Elastic::take(std::span<const double> numbers) {
  meetings_ = numbers[0];
  for (std::size_t i = 0; i < members_.size(); ++i)
    members_[i] = {scaling_.next(scaling_.unit * std::round(numbers[1 + 3 * i] / scaling_.unit), 0),
                   numbers[2 + 3 * i], numbers[3 + 3 * i]};
}

namespace {

// Returns a sixteenth of the mini-batch, or the next smaller size that divides it.
int elastic_pass(int batch) {
  int pass = std::max(1, batch / 16);
  while (batch % pass != 0) --pass;
  return pass;
}

const StrategyRegistration elastic(
    {.name = "elastic",
     .summary = "elastic averaging: models are merged after mega-batches, by their updates",
     .options = {{&kSyncEvery, 16}, {&kCentralMomentum, 0}},
     .uses = {"--async"},
     .models = GroupModels::own,
     .least_groups = 2,
     .meetings = {Meetings::Kind::at_rest, 16},
     .sizes = [](const StrategyOptions&, int batch,
                 const std::vector<bool>& on_gpu) -> Result<GroupSizes> {
       return GroupSizes{.images_per_pass = std::vector<int>(on_gpu.size(), elastic_pass(batch))};
     },
     .make = [](const StrategyOptions& options) -> MakeStrategy {
       return [options](ComputeGroups& groups, const SolverOptions& solver) {
         const auto mega = static_cast<std::uint64_t>(*options.own.number(kSyncEvery)) *
                           groups.count() * groups.net().options().batch;
         return std::make_unique<Elastic>(
             groups, solver, options.in_order,
             ElasticOptions{.mega_batch = mega, .momentum = *options.own.number(kCentralMomentum)});
       };
     }});

}  // namespace
}  // namespace omni
