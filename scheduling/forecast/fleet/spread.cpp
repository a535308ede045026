#include "scheduling/forecast/fleet/spread.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "scheduling/forecast/fleet/fleet.hpp"

namespace omni {
namespace {

constexpr double kUsualPower = 0.85;      // twice the ranks are 1.8 times as fast, until measured
constexpr std::size_t kMostPlanned = 12;  // members for which FLEET's search takes milliseconds

}  // namespace

double Spread::State::speedup(int ranks) const {
  const auto known = speedups.find(ranks);
  return known != speedups.end() ? known->second : std::pow(ranks, kUsualPower);
}

double Spread::State::left() const {
  return ended || samples >= of.samples ? 0 : static_cast<double>(of.samples - samples) * cost;
}

Spread::Spread(std::span<const SpreadMember> members, int ranks) : ranks_(ranks) {
  for (const SpreadMember& each : members)
    states_.push_back({.of = each, .cost = std::max(each.flops, 1.0) * 1e-9});
  places_.assign(members.size(), {0, 0});
}

std::vector<double> Spread::work() const {
  std::vector<double> all;
  // A member that has nothing left, but has not ended, needs a rank to be evaluated on.
  for (const State& each : states_) all.push_back(each.ended ? 0 : std::max(each.left(), 1e-9));
  return all;
}

std::vector<double> Spread::loads(const Places& places, std::span<const double> work) const {
  std::vector<double> all(ranks_);
  for (std::size_t i = 0; i < places.size(); ++i)
    for (int rank = 0; rank < places[i].count; ++rank)
      all[places[i].first + rank] += work[i] / states_[i].speedup(places[i].count);
  return all;
}

// Members are shared out by their work, the longest first. Then a member of the slowest rank gets
// two ranks for itself, or one more, and so on. Of all these places the best counts.
Spread::Plan Spread::spread(std::span<const double> work) const {
  Plan best{.places = {}, .seconds = INFINITY};
  std::vector<int> own(work.size());  // ranks of members that share theirs with nobody
  for (int taken = 0; taken <= ranks_;) {
    Places places(work.size(), {0, 0});
    std::vector<double> shared;
    int first = 0;
    for (std::size_t i = 0; i < work.size(); ++i) {
      if (own[i] == 0 && work[i] > 0) shared.push_back(work[i]);
      if (own[i] > 0) places[i] = {std::exchange(first, first + own[i]), own[i]};
    }
    if (!shared.empty() && first == ranks_) break;
    std::vector<int> of_rank(ranks_, -1);
    const std::vector<int> shares = share_out(shared, std::max(1, ranks_ - first));
    auto next = shares.begin();
    for (std::size_t i = 0; i < work.size(); ++i) {
      if (own[i] == 0 && work[i] > 0) places[i] = {first + *next++, 1};
      for (int on = 0; on < places[i].count; ++on)
        of_rank[places[i].first + on] = static_cast<int>(i);
    }
    const std::vector<double> load = loads(places, work);
    const auto slowest = std::ranges::max_element(load) - load.begin();
    if (load[slowest] < best.seconds) best = {places, load[slowest]};
    const int member = of_rank[slowest];
    if (member < 0) break;
    own[member] = std::max(own[member] + 1, 2);
    if (own[member] > states_[member].of.most_ranks) break;
    taken = std::accumulate(own.begin(), own.end(), 0);
  }
  return best;
}

// Each time a rank becomes free, the members that are left are spread anew.
double Spread::seconds_with_moves(std::vector<double> work) const {
  double seconds = 0;
  while (std::ranges::any_of(work, [](double each) { return each > 0; })) {
    const Places places = spread(work).places;
    const std::vector<double> load = loads(places, work);
    double step = INFINITY;
    for (const double each : load)
      if (each > 0) step = std::min(step, each);
    for (std::size_t i = 0; i < work.size(); ++i)
      if (places[i].count > 0) {
        const double left = 1 - step / load[places[i].first];  // all on a rank advance alike
        work[i] = left > 1e-9 ? work[i] * left : 0;
      }
    seconds += step;
  }
  return seconds;
}

Spread::Plan Spread::flotillas() const {
  Fleet fleet{.members = {}, .devices = ranks_};
  std::size_t members = 0;
  for (const State& each : states_) {
    FleetMember& member = fleet.members.emplace_back();
    if (each.left() == 0) continue;
    ++members;
    member.samples = each.of.samples - each.samples;
    member.position = each.samples;
    for (int count = 1; count <= std::min(each.of.most_ranks, ranks_); ++count)
      member.rates.push_back(each.speedup(count) / each.cost);
  }
  Plan found{.places = Places(states_.size(), {0, 0}), .seconds = INFINITY};
  if (members > kMostPlanned) return found;
  const auto plan = plan_fleet(fleet);
  if (!plan || plan->flotillas.empty()) return found;
  int first = 0;
  for (const FleetShare& each : plan->flotillas.front().shares)
    found.places[each.member] = {std::exchange(first, first + each.devices), each.devices};
  found.seconds = plan->seconds();
  return found;
}

Spread::Plan Spread::plan() const {
  const std::vector<double> all = work();
  Plan plan = spread(all);
  plan.seconds = seconds_with_moves(all);
  Plan in_turn = flotillas();
  return in_turn.seconds < 0.98 * plan.seconds ? std::move(in_turn) : std::move(plan);
}

void Spread::begin(Places places) {
  places_ = std::move(places);
  for (State& each : states_) each.begun_at = each.samples;
}

void Spread::note(int member, std::uint64_t samples, bool ended, double time) {
  State& state = states_[member];
  state.samples = samples;
  if (ended && !std::exchange(state.ended, true)) state.ended_at = time;
}

void Spread::learn(double time) {
  double factors = 0;
  int count = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    double predicted = 0, taken = 0;
    int ranks = 0;
    std::vector<State*> here;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      State& each = states_[i];
      if (places_[i].count == 0 || places_[i].first != rank || each.samples <= each.begun_at)
        continue;
      ranks = places_[i].count;
      predicted +=
          static_cast<double>(each.samples - each.begun_at) * each.cost / each.speedup(ranks);
      taken = std::max(taken, each.ended ? each.ended_at : time);
      here.push_back(&each);
    }
    if (predicted <= 0 || taken <= 0) continue;
    const double factor = taken / predicted;
    for (State* each : here) {
      if (ranks > 1 && each->measured)
        each->speedups[ranks] = each->speedup(ranks) / factor;
      else
        each->cost *= factor;
      each->measured = true;
    }
    factors += factor;
    ++count;
  }
  for (State& each : states_)
    if (!each.measured && count > 0) each.cost *= factors / count;
  for (State& each : states_) each.begun_at = each.samples;
}

bool Spread::pays(double time, double cost) const {
  constexpr double kSettled = 10;  // seconds after which measured speeds count by themselves
  Spread now = *this;
  now.learn(time);
  const std::vector<double> work = now.work(), load = now.loads(places_, work);
  double waiting = 0;
  for (std::size_t i = 0; i < work.size(); ++i)
    if (places_[i].count == 0) waiting += work[i];
  const double here = std::ranges::max(load) + waiting / ranks_;
  const bool is_free = std::ranges::find(load, 0.0) != load.end();
  const bool knows = std::ranges::any_of(now.states_, &State::measured);
  if (here <= 0 || !knows || (!is_free && time < kSettled)) return false;
  const Plan next = now.plan();
  const bool same =
      std::ranges::equal(next.places, places_, [](const auto& one, const auto& other) {
        return one.first == other.first && one.count == other.count;
      });
  return !same && next.seconds + cost <= (is_free ? 0.95 : 0.8) * here;
}

}  // namespace omni
