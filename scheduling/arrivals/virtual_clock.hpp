// Which compute group finishes next, by the simulated time of a machine file instead of by real
// time. Times are whole multiples of 2^-30 s, which sums keep exactly: the same on every machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/rng.hpp"
#include "scheduling/arrivals/machine_file.hpp"

namespace omni {

class VirtualClock {
 public:
  // For a checkpoint: by group, when it finishes (0: not under way), and the draws made.
  struct State {
    double now = 0;  // s
    std::vector<double> finishes{};
    std::vector<std::uint64_t> draws{};
    bool operator==(const State&) const = default;
  };

  // Groups on one device share it: with m of them each takes m times as long.
  VirtualClock(const Machine& machine, std::vector<std::size_t> device_of_group,
               double flops_per_sample, std::uint64_t seed);

  // Starts a mini-batch of an idle group. It finishes after a time drawn from its device's law,
  // with mean Machine::seconds, plus `extra_seconds`, which do not vary.
  void begin(int group, std::uint64_t samples, double extra_seconds = 0);
  // The group that finishes next; of several at once the lowest. now() becomes that time. Requires
  // a running group.
  int next();

  // Abandons running mini-batches.
  void give_up() { std::ranges::fill(state_.finishes, 0); }

  bool under_way(int group) const { return state_.finishes[group] > 0; }
  double now() const { return state_.now; }  // simulated s since the training began

  const std::string& machine() const { return machine_.name; }
  const State& state() const { return state_; }
  // False: not a state of so many groups; nothing has changed.
  bool restore(State state);

 private:
  double draw(std::size_t group);  // of its device's law, around 1

  Machine machine_;
  std::vector<std::size_t> devices_;  // by group
  std::vector<double> sharing_;       // groups on the device of each group
  double flops_per_sample_;
  Philox random_;
  State state_;
};

}  // namespace omni
