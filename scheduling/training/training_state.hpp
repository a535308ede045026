// The state of a training between two iterations, as checkpoints have it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduling/forecast/virtual_clock.hpp"
#include "scheduling/strategies/strategy.hpp"

namespace omni {

// State of a virtual clock, and its running mini-batches.
struct ArrivalState {
  VirtualClock::State clock;
  std::vector<std::uint64_t> samples;  // by group, of the mini-batch under way; 0: none
  int finished = -1;                   // the group that has finished, but is not submitted yet
  std::string machine{};               // its name
};

// State of a training, saved in checkpoints; all randomness and the data order follow from it.
struct TrainingState {
  std::uint64_t seed = 0;
  std::uint64_t iteration = 0;  // updates done
  std::uint64_t samples = 0;    // that went into them: the cursor in the data
  double average_loss = 0;      // Darknet's: 0.9 old + 0.1 new, the first loss to start with
  std::optional<double> average_accuracy{};  // likewise; none: of no mini-batch yet
  double seconds = 0;                        // of training, by all processes
  bool owes_evaluation = false;              // of this iteration: what was due is not done
  StrategyState strategy{};
  std::optional<ArrivalState> arrivals{};
  double simulated_before = 0;  // seconds by virtual clocks before that of the arrivals
  std::map<std::string, std::vector<double>, std::less<>> pilots{};  // numbers of each, by name
  std::vector<std::uint64_t> damaged{};  // training images that could not be read, ascending
  // Iteration of the last checkpoint of this process; never saved itself. None: there is more to
  // save than that.
  std::optional<std::uint64_t> saved_at{};
};

}  // namespace omni
