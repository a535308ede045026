// What a training tells of an update, and of an evaluation behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduling/groups/momentum.hpp"
#include "scheduling/strategies/strategy.hpp"
#include "scheduling/training/evaluator.hpp"

namespace omni {

struct StepReport {
  std::uint64_t iteration = 0, iterations = 0;  // of how many; 0: no end
  std::uint64_t began = 0;  // of those before it; groups finish in another order
  double epoch = 0;
  std::uint64_t images = 0;
  double loss = 0, average_loss = 0, accuracy = 0, average_accuracy = 0;
  float learning_rate = 0;
  Momentum momentum;
  bool adam = false;  // whose B1 is the explicit momentum, to which asynchrony adds none
  int group = 0;
  std::int64_t staleness = 0;                    // of this update
  std::optional<std::int64_t> fc_staleness = 0;  // likewise; none: groups share no layer
  double mean_staleness = 0;                     // of the updates since the last report
  double images_per_second = 0;                  // since the last report
  double seconds = 0;  // of the whole training; evaluation and saving left out
  double seconds_per_iteration = 0;
  std::optional<double> simulated_seconds{};  // by a virtual clock, of the whole training
  std::uint64_t group_samples = 0;            // of the group's mini-batch
  std::vector<StrategyFigure> figures{};      // of the strategy's own
};

struct EvaluationReport {
  StepReport at;
  Tally tally;
};

}  // namespace omni
