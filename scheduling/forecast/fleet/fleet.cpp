#include "scheduling/forecast/fleet/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "scheduling/forecast/fleet/search.hpp"

namespace omni {
namespace {

// A search may find a worse plan on more devices. So smaller numbers of devices are searched as
// well, where they may help. The additional searches end after this many steps, which matters only
// for dozens of members on dozens of devices.
constexpr double kMostWork = 2e8;

Error refuse_fleet(std::string what, std::string hint) {
  return {ErrorKind::usage, "ensemble", std::move(what), std::move(hint)};
}

Status check_fleet(const Fleet& fleet) {
  if (fleet.devices < 1) return refuse_fleet("there is no device", "give it one or more");
  if (!(fleet.pipeline > 0))
    return refuse_fleet(fmt::format("the pipeline prepares {} samples per second", fleet.pipeline),
                        "measure it again");
  for (std::size_t i = 0; i < fleet.members.size(); ++i) {
    const FleetMember& member = fleet.members[i];
    for (const double rate : member.rates)
      if (!(rate >= 0 && rate < INFINITY))
        return refuse_fleet(fmt::format("member {} has the rate {}", i, rate), "measure it again");
    if (member.samples > 0 && (fleet_rate(member, fleet.devices) == 0))
      return refuse_fleet(fmt::format("member {} cannot train on {} device{}", i, fleet.devices,
                                      fleet.devices == 1 ? "" : "s"),
                          "leave it out, or give it more devices");
  }
  return {};
}

}  // namespace

int Flotilla::devices() const {
  return std::accumulate(shares.begin(), shares.end(), 0,
                         [](int sum, FleetShare share) { return sum + share.devices; });
}

double FleetPlan::seconds() const {
  return std::accumulate(flotillas.begin(), flotillas.end(), 0.0,
                         [](double sum, const Flotilla& each) { return sum + each.seconds; });
}

std::uint64_t FleetPlan::prepared() const {
  std::uint64_t samples = 0;
  for (const Flotilla& each : flotillas) samples += each.samples * each.streams;
  return samples;
}

Result<FleetPlan> plan_fleet(const Fleet& fleet) {
  OMNI_CHECK(check_fleet(fleet));
  auto [best, bounds, work] = search_fleet(fleet, fleet.devices);
  for (int devices = fleet.devices - 1; devices >= 1 && work < kMostWork; --devices) {
    if (bounds[devices] >= best.seconds()) break;
    FoundPlan found = search_fleet(fleet, devices);
    if (is_better(found.plan, best)) best = std::move(found.plan);
    work += found.work;
  }
  return best;
}

Result<FleetPlan> simulate_fleet(const Fleet& fleet, std::span<const FleetShares> shares) {
  OMNI_CHECK(check_fleet(fleet));
  FleetState state(fleet);
  FleetPlan plan;
  for (const FleetShares& each : shares) {
    const std::string where = fmt::format("flotilla {}", plan.flotillas.size());
    std::vector<int> members;
    int devices = 0;
    double rate = INFINITY;
    for (const auto& [member, count] : each) {
      if (member < 0 || member >= std::ssize(state.left) || state.left[member] == 0 ||
          std::ranges::find(members, member) != members.end())
        return refuse_fleet(fmt::format("{} has member {}, which cannot train", where, member),
                            "plan again");
      if (count < 1 || fleet_rate(fleet.members[member], count) == 0)
        return refuse_fleet(fmt::format("{} has member {} on {} devices", where, member, count),
                            "plan again");
      members.push_back(member);
      devices += count;
      rate = std::min(rate, fleet_rate(fleet.members[member], count));
    }
    if (each.empty() || devices > fleet.devices)
      return refuse_fleet(fmt::format("{} uses {} of {} devices", where, devices, fleet.devices),
                          "plan again");
    plan.flotillas.push_back(state.train(each, rate));
  }
  if (!state.complete())
    return refuse_fleet("not all members are trained to their end", "plan again");
  return plan;
}

Result<double> makespan(const Fleet& fleet, const FleetPlan& plan) {
  std::vector<FleetShares> shares;
  for (const Flotilla& flotilla : plan.flotillas) shares.push_back(flotilla.shares);
  OMNI_TRY(const FleetPlan simulated, simulate_fleet(fleet, shares));
  return simulated.seconds();
}

Result<double> makespan_all_at_once(const Fleet& fleet) {
  OMNI_CHECK(check_fleet(fleet));
  FleetState state(fleet);
  double seconds = 0;
  while (!state.complete()) {
    FleetShares shares;
    for (int i = 0; i < std::ssize(state.left); ++i)
      if (state.left[i] > 0) shares.push_back({i, 1});
    const int members = static_cast<int>(shares.size());
    double rate = INFINITY;
    for (FleetShare& share : shares) {
      share.devices = std::max(fleet.devices / members, 1);
      rate = std::min(rate, fleet_rate(fleet.members[share.member], share.devices));
    }
    seconds += state.train(shares, rate * std::min(1.0, 1.0 * fleet.devices / members)).seconds;
  }
  return seconds;
}

Result<double> makespan_one_by_one(const Fleet& fleet) {
  OMNI_CHECK(check_fleet(fleet));
  double seconds = 0;
  for (const FleetMember& member : fleet.members)
    if (member.samples > 0)
      seconds += static_cast<double>(member.samples) /
                 std::min(fleet_rate(member, fleet.devices), fleet.pipeline);
  return seconds;
}

std::vector<int> share_out(std::span<const double> work, int ranks) {
  std::vector<std::size_t> order(work.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return work[i]; });
  std::vector<std::pair<double, int>> loads(ranks);  // work, and number of members
  std::vector<int> rank_of(work.size());
  for (const std::size_t member : order) {
    const auto least = std::ranges::min_element(loads);
    least->first += work[member];
    ++least->second;
    rank_of[member] = static_cast<int>(least - loads.begin());
  }
  return rank_of;
}

}  // namespace omni
