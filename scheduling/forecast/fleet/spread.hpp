// Spread decides on which ranks the members of an ensemble train. Long members get several ranks,
// and the ranks of a member that has ended are given to the others. Times are in seconds.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "scheduling/groups/group_layout.hpp"

namespace omni {

struct SpreadMember {
  double flops = 1;           // operations for a sample
  std::uint64_t samples = 0;  // of its training
  int most_ranks = 1;         // that can share its mini-batches
};

class Spread {
 public:
  using Places = std::vector<RankRange>;  // by member; count 0: the member has ended, or waits
  struct Plan {
    Places places;
    double seconds = 0;  // until all members have ended
  };

  Spread(std::span<const SpreadMember> members, int ranks);

  // Plans from what is known so far. The makespan supposes that ranks which become free help the
  // others. Members wait only if FLEET's flotillas are faster.
  Plan plan() const;
  Places by_work() const { return spread(work()).places; }  // if no member ever moves
  void begin(Places places);                                // members train there from now, time 0
  // `samples` are those trained so far, in all; `ended`: it has none left.
  void note(int member, std::uint64_t samples, bool ended, double time);
  void learn(double time);  // from the speeds since begin()
  bool has_ended(int member) const { return states_[member].ended; }
  // Returns true if, after a move that costs `cost` seconds, all members would end clearly sooner
  // than where they are.
  bool pays(double time, double cost) const;

 private:
  struct State {
    SpreadMember of;
    double cost;  // seconds of one rank for a sample; at first in an arbitrary unit
    bool measured = false, ended = false;
    std::uint64_t samples = 0, begun_at = 0;  // trained now, and at begin()
    double ended_at = 0;
    std::map<int, double> speedups{};  // measured, by number of ranks

    double speedup(int ranks) const;
    double left() const;  // seconds of one rank
  };
  std::vector<double> loads(const Places& places, std::span<const double> work) const;  // by rank
  Plan spread(std::span<const double> work) const;
  double seconds_with_moves(std::vector<double> work) const;
  Plan flotillas() const;
  std::vector<double> work() const;

  std::vector<State> states_;
  int ranks_;
  Places places_;
};

}  // namespace omni
