// FLEET (Guan, Mokadam, Shen, Lim, Patton 2020) plans which members of an ensemble train at the
// same time, each on how many devices. Members that train at the same time are a flotilla. They
// advance in step on one stream of samples. When a member ends, the devices are divided anew among
// the remaining members.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

struct FleetMember {
  // rates[m - 1] is the number of samples per second on m devices; 0 means that the member cannot
  // train on m devices. More devices than rates.size() do not help.
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

// A Flotilla has members that train at the same time, until the first of them ends.
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

// Returns the plan with the smallest makespan that was found. The search also tries fewer devices.
// So, up to about 20 members on 16 devices, an additional device never makes the makespan larger.
// Members without samples are left out.
Result<FleetPlan> plan_fleet(const Fleet& fleet);

// simulate_fleet() computes a plan from the shares of its flotillas, and makespan() computes its
// seconds. They return an error if a flotilla uses more devices than there are, or a member that
// has ended. A member that is not trained to its end is an error as well.
Result<FleetPlan> simulate_fleet(const Fleet& fleet, std::span<const FleetShares> shares);
Result<double> makespan(const Fleet& fleet, const FleetPlan& plan);

// Shares members out among ranks that are alike: the longest first, each to the rank with the least
// work so far. Returns the rank of each member. Equal members are shared out in turn.
std::vector<int> share_out(std::span<const double> work, int ranks);

// These functions return the makespans of the two usual ways. All at once: members get equal shares
// of the devices, or of their time if there are more members than devices. All train at the pace of
// the slowest, and shares grow when a member ends. One by one: each member trains alone, on its
// best number of devices.
Result<double> makespan_all_at_once(const Fleet& fleet);
Result<double> makespan_one_by_one(const Fleet& fleet);

}  // namespace omni
