// LossLevel judges the losses of mini-batches. It finds whether a net does better than a net with
// the same output for every sample. It also finds whether the loss has risen far above its lowest
// level.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "layers/net.hpp"
#include "scheduling/pilots/loss_mean.hpp"

namespace omni {

// Returns the lowest training loss that a net with the same output for every sample can have.
// `shares` are those of the classes among the samples; empty: equal shares. Returns nothing if it
// is not known for this kind of loss.
std::optional<double> chance_loss(const Net& net, std::span<const double> shares);

// Returns false if the mean of the losses is below `chance` by more than three standard errors plus
// half a per cent of `chance`.
bool at_chance(std::span<const double> losses, double chance);

class LossLevel {
 public:
  // Losses are judged in blocks of kBlock losses. To compare them with chance, a block has the
  // losses of an epoch, but at least kLeastBlock and at most kBlock.
  static constexpr std::size_t kBlock = 64, kLeastBlock = 16;
  static constexpr std::size_t kOlder = 8;  // numbers that an older program saved

  explicit LossLevel(std::optional<double> chance, std::size_t epoch = kBlock)
      : chance_(chance), chance_block_(std::clamp(epoch, kLeastBlock, kBlock)) {}

  void note(double loss);
  // Returns the number of losses, in whole blocks, since a block was clearly below chance or
  // clearly below all blocks before it. It is 0 if the loss at chance is not known.
  std::uint64_t at_chance() const { return chance_ ? static_cast<std::uint64_t>(since_.count) : 0; }
  double mean_at_chance() const { return since_.mean; }  // mean of these losses
  // Returns the number of losses since the net forgot most of what it had learned; 0 means that it
  // has not.
  std::uint64_t risen() const { return risen_; }
  double recent() const { return recent_; }  // the median of the last block
  double lowest() const { return lowest_; }  // the lowest median of a block
  std::optional<double> chance() const { return chance_; }

  std::vector<double> numbers() const;
  // Restores what numbers() returned. Returns false if the numbers are impossible.
  bool take(std::span<const double> numbers);

 private:
  void compare_with_chance(const LossMean& mean);
  static constexpr double kNone = 1e300;  // larger than any loss; stands for no value

  std::optional<double> chance_;
  std::size_t chance_block_;
  std::vector<double> block_;
  LossMean part_;        // the current block that will be compared with chance
  LossMean since_;       // the losses counted by at_chance()
  double best_ = kNone;  // mean loss of a block that was significantly lower than all blocks before
  double first_ = kNone, lowest_ = kNone, recent_ = 0;  // medians of blocks
  std::uint64_t risen_ = 0;
};

}  // namespace omni
