// search_fleet() schedules the members of a fleet. FleetState counts the samples that each member
// has left to train.
#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "scheduling/forecast/fleet/fleet.hpp"

namespace omni {

// Returns the rate of a member on at most `devices` devices: fewer devices may be faster.
inline double fleet_rate(const FleetMember& member, int devices) {
  const std::size_t known = std::min<std::size_t>(devices, member.rates.size());
  return known == 0 ? 0 : *std::max_element(&member.rates[0], &member.rates[0] + known);
}

// A FleetState holds the samples that are left to train, while flotillas train one after another.
class FleetState {
 public:
  explicit FleetState(const Fleet& fleet) : fleet_(fleet) {
    for (const FleetMember& member : fleet.members) left.push_back(member.samples);
  }

  bool complete() const {
    return std::ranges::all_of(left, [](std::uint64_t samples) { return samples == 0; });
  }

  int streams(const FleetShares& shares) const {
    std::set<std::uint64_t> positions;
    for (const FleetShare& share : shares) {
      const FleetMember& member = fleet_.members[share.member];
      positions.insert(member.position + member.samples - left[share.member]);
    }
    return static_cast<int>(positions.size());
  }

  // Trains the members until the first of them ends. `rate` is the rate of the slowest member.
  Flotilla train(FleetShares shares, double rate) {
    Flotilla flotilla{.shares = std::move(shares), .samples = UINT64_MAX};
    flotilla.streams = streams(flotilla.shares);
    flotilla.pace = std::min(rate, fleet_.pipeline / flotilla.streams);
    for (const FleetShare& share : flotilla.shares)
      flotilla.samples = std::min(flotilla.samples, left[share.member]);
    for (const FleetShare& share : flotilla.shares)
      if ((left[share.member] -= flotilla.samples) == 0) flotilla.ended.push_back(share.member);
    flotilla.seconds = static_cast<double>(flotilla.samples) / flotilla.pace;
    return flotilla;
  }

  std::vector<std::uint64_t> left;

 private:
  const Fleet& fleet_;
};

// Returns true if `plan` is faster than `than`, or as fast with fewer prepared samples.
bool is_better(const FleetPlan& plan, const FleetPlan& than);

struct FoundPlan {
  FleetPlan plan;
  std::vector<double> bounds;  // by number of devices: seconds that every plan takes at least
  double work = 0;             // of the search, in steps
};

FoundPlan search_fleet(const Fleet& fleet, int devices);

}  // namespace omni
