// Detects from the losses of mini-batches that a training diverges: their median rises far above
// the lowest median. A median ignores single bad mini-batches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "scheduling/pilots/loss_mean.hpp"

namespace omni {

class LossWatch {
 public:
  // window: losses in a median. chance: the loss of a net with the same output for every sample.
  LossWatch(std::size_t window, double chance) : window_(window), chance_(chance) {}

  void note(double loss);
  // The net forgets most of what it has learned, or gives the same output for every sample. Shorter
  // rises than a window do not count, unless the loss explodes.
  bool lost() const;
  // From now on losses should fall: later ones are compared with the next window.
  void expect_falling() { first_.clear(), since_ = 0; }
  // The window since then, once it is full.
  std::optional<LossMean> first() const {
    return first_.size() < window_ ? std::nullopt : std::optional(mean_of(first_));
  }
  // Likewise for smaller rises: by half of the lowest median, for a whole window; or surely above
  // the first losses since expect_falling().
  bool rises() const { return risen_ >= window_ || (since_ > 0 && surely_above_first()); }
  // The loss, over the window or its end, is near the lowest: the parameters are worth keeping.
  bool good() const { return full() && near(window_); }
  LossMean recent() const { return mean_of(recent_); }  // of a window at most
  // Whether one mean is above another by more than both their errors and a small share say.
  bool surely_above(const LossMean& now, const LossMean& before) const;
  double lowest() const { return lowest_; }
  bool ends_well() const { return recent_.size() < kLast || near(kLast); }

  void forget_recent() {
    recent_.clear();
    above_ = risen_ = 0;
  }

  struct State {
    double lowest = 0;
    std::uint64_t above = 0;
    std::vector<double> recent;
  };
  State state() const { return {lowest_, above_, {recent_.begin(), recent_.end()}}; }
  void restore(const State& state);

 private:
  static constexpr std::size_t kLast = 5;
  // Shares: of what has been learned, and of the loss.
  static constexpr double kForgotten = 0.8, kNoise = 0.1, kNear = 0.15;

  bool is_above() const;
  bool has_risen() const;
  bool surely_above_first() const {  // asked once in a window, so that none counts twice
    return since_ % window_ == 0 && surely_above(mean_of(recent_), mean_of(first_));
  }
  bool full() const { return recent_.size() == window_; }
  bool near(std::size_t last) const { return median(last) <= lowest_ + margin(kNear, kNoise / 2); }
  double median(std::size_t last) const;
  double margin(double learned, double unlearned) const {
    return std::max(learned * (chance_ - lowest_), unlearned * lowest_);
  }

  std::size_t window_;
  double chance_;
  double lowest_ = std::numeric_limits<double>::infinity();  // the first loss, then medians
  std::uint64_t above_ = 0;    // losses for which the median has been far above
  std::uint64_t risen_ = 0;    // and above what rises() looks for
  std::vector<double> first_;  // losses since expect_falling(), of a window
  std::uint64_t since_ = 0;    // losses since then
  std::deque<double> recent_;
};

}  // namespace omni
