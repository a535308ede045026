// TrainingState is the state of a training between two iterations. Checkpoints save it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduling/forecast/virtual_clock.hpp"
#include "scheduling/strategies/strategy.hpp"

namespace omni {

class TrainingSnapshot;

// ArrivalState is the state of a virtual clock and of the mini-batches that run on it.
struct ArrivalState {
  VirtualClock::State clock;
  std::vector<std::uint64_t> samples;  // by group, of the mini-batch under way; 0: none
  int finished = -1;      // the group that has finished on the clock but is not submitted; -1: none
  std::string machine{};  // name of the simulated machine
};

// The order of the data and all random numbers follow from this state.
struct TrainingState {
  std::uint64_t seed = 0;
  std::uint64_t iteration = 0;  // updates done
  std::uint64_t samples = 0;    // used in these updates: the position in the data
  double average_loss = 0;      // Darknet's: 0.9 old + 0.1 new, starting from the first loss
  std::optional<double> average_accuracy{};  // averaged in the same way; none: no update yet
  double seconds = 0;                        // of training, by all processes
  bool owes_evaluation = false;              // the evaluation due at this iteration is not done
  StrategyState strategy{};
  std::optional<ArrivalState> arrivals{};
  double simulated_before = 0;  // seconds by virtual clocks before the one in `arrivals`
  std::map<std::string, std::vector<double>, std::less<>> pilots{};  // Pilot::numbers(), by name
  // `kept` has Pilot::kept() by the pilot's name. It is set only in a state that is being saved or
  // was just loaded.
  std::map<std::string, std::vector<std::shared_ptr<const TrainingSnapshot>>, std::less<>> kept{};
  std::vector<std::uint64_t> damaged{};  // training images that could not be read, ascending
  // `saved_at` is the iteration of the last checkpoint, or the one at which the Trainer started.
  // Checkpoints do not contain it. If a pilot resets it, the next save writes a checkpoint in any
  // case.
  std::optional<std::uint64_t> saved_at{};
};

}  // namespace omni
