// StepReport and EvaluationReport have the figures that a training reports after an update and
// after an evaluation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduling/groups/momentum.hpp"
#include "scheduling/strategies/strategy.hpp"
#include "scheduling/training/evaluator.hpp"

namespace omni {

struct StepReport {
  std::uint64_t iteration = 0;   // number of this update, from 1
  std::uint64_t iterations = 0;  // length of the training; 0: no end, or not known
  std::uint64_t began = 0;       // how many mini-batches began before this one
  double epoch = 0;
  std::uint64_t images = 0;  // of the whole training so far
  double loss = 0, average_loss = 0, accuracy = 0, average_accuracy = 0;
  std::vector<double> auxiliary_losses{};  // in `loss`, with their weights
  bool has_classes = true;                 // false: the accuracies mean nothing
  float learning_rate = 0;
  Momentum momentum;
  bool adam = false;  // Adam or another rule to whose momentum asynchrony adds nothing
  int group = 0;
  std::int64_t staleness = 0;                    // of this update, in updates
  std::optional<std::int64_t> fc_staleness = 0;  // of merged layers; none: groups share no layer
  double mean_staleness = 0;                     // of the updates since the last report
  double images_per_second = 0;                  // since the last report
  double seconds = 0;  // of the whole training, without evaluation and saving
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
