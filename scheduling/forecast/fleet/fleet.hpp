// FLEET (Guan, Mokadam, Shen, Lim, Patton 2020) plans which members of an ensemble train together,
// each on how many devices. The members of a flotilla advance in step on one stream of samples.
// When a member ends, the devices are shared out anew among all members that are left.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

struct FleetMember {
  // rates[m - 1] is the number of samples per second on m devices; 0: the member cannot train on m
  // devices. More devices than there are rates do not help.
  std::vector<double> rates{};
  std::uint64_t samples = 0;   // left to train
  std::uint64_t position = 0;  // of the next sample in the stream: the samples trained before
};

struct Fleet {
  std::vector<FleetMember> members{};
  int devices = 1;
  double pipeline = INFINITY;  // samples per second that can be prepared; infinite: not known
};

struct FleetShare {
  int member = 0, devices = 0;

  bool operator==(const FleetShare&) const = default;
};

using FleetShares = std::vector<FleetShare>;

// The members of a Flotilla train until the first of them ends.
struct Flotilla {
  FleetShares shares;
  int streams = 1;  // different positions of members; each sample is prepared once for each
  std::uint64_t samples = 0;  // that each member trains
  double pace = 0;            // samples per second of each member
  double seconds = 0;
  std::vector<int> ended{};  // members that are complete afterwards

  int devices() const;
};

struct FleetPlan {
  std::vector<Flotilla> flotillas;  // one after the other

  double seconds() const;          // the makespan
  std::uint64_t prepared() const;  // samples that the pipeline prepares
};

// Returns the plan with the smallest makespan that was found. Up to about 20 members on 16 devices,
// the makespan does not grow with the number of devices. Members without samples are left out.
Result<FleetPlan> plan_fleet(const Fleet& fleet);

// Computes what a plan leads to from its shares alone. Returns an error if a flotilla uses more
// devices than there are, or a member that has ended. A member that is not trained to its end is an
// error, too.
Result<FleetPlan> simulate_fleet(const Fleet& fleet, std::span<const FleetShares> shares);
Result<double> makespan(const Fleet& fleet, const FleetPlan& plan);

// These are the makespans of the two usual ways. All at once: members get equal shares of the
// devices, or equal shares of time on them if there are more members than devices. All train at the
// pace of the slowest. When a member ends, shares grow. One by one: each trains on the number of
// devices that is the best for it.
Result<double> makespan_all_at_once(const Fleet& fleet);
Result<double> makespan_one_by_one(const Fleet& fleet);

}  // namespace omni
