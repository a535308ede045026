// The state of a training between two iterations, as checkpoints have it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduling/forecast/virtual_clock.hpp"
#include "scheduling/pilots/loss_watch.hpp"
#include "scheduling/strategies/strategy.hpp"

namespace omni {

// The setting that a search found, which replaces the net's, and when the next search is due
// (tuned_training.hpp).
struct Tuning {
  double momentum = 0, learning_rate = 0;
  bool warm = false;              // the loss has left the level of chance
  std::uint64_t next_search = 0;  // iteration; UINT64_MAX: none
  std::uint64_t lost = 0;         // iterations of trials that were not kept
  double highest_step = 0;        // it and larger ones have lost the training before; 0: none
  std::uint64_t returns = 0;      // to earlier parameters
  double simulated = 0;           // seconds by virtual clocks before that of the arrivals
};

// State of a virtual clock, and its running mini-batches.
struct ArrivalState {
  VirtualClock::State clock;
  std::vector<std::uint64_t> samples;  // by group, of the mini-batch under way; 0: none
  int finished = -1;                   // the group that has finished, but is not submitted yet
  std::string machine{};               // its name
};

// State of a guarded training (guarded_training.hpp).
struct GuardState {
  double share = 1;  // of the learning rate
  // Good snapshots from one doubling of the share to the next, and until the next.
  std::uint64_t patience = 1, wait = 1;
  std::uint64_t next = 0;  // iteration of the next snapshot
  LossWatch::State losses{};
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
  std::optional<GuardState> guard{};
  std::optional<Tuning> tuning{};
  StrategyState strategy{};
  std::optional<ArrivalState> arrivals{};
  std::vector<double> health{};  // numbers of HealthCheck
  std::vector<double> growth{};  // of GrowingTraining: devices, best throughput, whether settled
  std::vector<std::uint64_t> damaged{};  // training images that could not be read, ascending
  // Iteration of the last checkpoint of this process, from one Trainer to the next; never saved.
  std::optional<std::uint64_t> saved_at{};
};

}  // namespace omni
