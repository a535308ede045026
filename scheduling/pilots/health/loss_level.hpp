// Evaluates losses of mini-batches, at a few operations each: whether a net does better than one
// with the same output for every sample, and whether its loss has risen far above the lowest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "layers/net.hpp"
#include "scheduling/pilots/loss_mean.hpp"

namespace omni {

// The training loss of the best net with the same output for every sample. `shares`: of the classes
// among the samples; none: equal shares. Nothing if the net's kind of loss does not allow it.
std::optional<double> chance_loss(const Net& net, std::span<const double> shares);

// False: their mean is surely below, by three standard errors and half a percent.
bool at_chance(std::span<const double> losses, double chance);

class LossLevel {
 public:
  // Losses are judged in blocks of so many; compared with chance, in blocks of an epoch if that is
  // shorter, but of so many at least.
  static constexpr std::size_t kBlock = 64, kLeastBlock = 16;

  explicit LossLevel(std::optional<double> chance, std::size_t epoch = kBlock)
      : chance_(chance), chance_block_(std::clamp(epoch, kLeastBlock, kBlock)) {}

  void note(double loss);
  // Losses since the net was last better than chance, or clearly better than before; 0 while it is.
  std::uint64_t at_chance() const { return chance_ ? static_cast<std::uint64_t>(since_.count) : 0; }
  double mean_at_chance() const { return since_.mean; }  // of these losses
  // Losses since the net forgot most of what it had learned; 0 while it has not.
  std::uint64_t risen() const { return risen_; }
  double recent() const { return recent_; }  // the median of the last block
  double lowest() const { return lowest_; }  // of these medians
  std::optional<double> chance() const { return chance_; }

  std::vector<double> numbers() const;
  bool take(
      std::span<const double> numbers);  // restores what numbers() gave; false: impossible numbers

 private:
  void compare_with_chance(const LossMean& mean);
  static constexpr double kNone = 1e300;  // no loss is as large

  std::optional<double> chance_;
  std::size_t chance_block_;
  std::vector<double> block_;
  LossMean part_;        // of a block that is to be compared with chance
  LossMean since_;       // those at chance
  double best_ = kNone;  // mean loss of a block that was significantly lower than all blocks before
  double first_ = kNone, lowest_ = kNone, recent_ = 0;  // medians of blocks
  std::uint64_t risen_ = 0;
};

}  // namespace omni
