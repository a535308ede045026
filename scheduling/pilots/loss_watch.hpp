// LossWatch detects from the losses of mini-batches that a training diverges: their median rises
// far above the lowest median. A median ignores single bad mini-batches.
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

// A loss above this share of chance is near chance. Differences between such losses decide nothing.
inline constexpr double kNearChance = 0.93;

class LossWatch {
 public:
  // `window` is the number of losses in a median. `chance` is the loss of a net with the same
  // output for every sample; infinite means that it is not known.
  LossWatch(std::size_t window, double chance) : window_(window), chance_(chance) {}

  void note(double loss);
  // Returns true if the net has forgotten most of what it had learned, or gives the same output for
  // every sample. Rises that are shorter than a window do not count, unless the loss explodes. A
  // few huge losses count at once, as a net often stays at chance for ever after them.
  bool lost() const;
  // From now on losses should fall. rises() compares later losses with the first window of losses
  // after this call.
  void expect_falling() { first_.clear(), since_ = 0; }
  // Returns the mean of the first window since expect_falling(), once the window is full.
  std::optional<LossMean> first() const {
    return first_.size() < window_ ? std::nullopt : std::optional(mean_of(first_));
  }
  // Returns true if the losses rise, even by less than lost() detects. There are two cases: the
  // median was clearly above 1.5 times the lowest for a whole window, or recent losses are surely
  // above the first ones since expect_falling().
  bool rises() const { return risen_ >= window_ || (since_ > 0 && surely_above_first()); }
  // Returns true if the median is near the lowest one, so the parameters are worth saving.
  bool good() const { return full() && near(window_); }
  bool near_chance() const;                             // true: the mean of the recent losses is
  LossMean recent() const { return mean_of(recent_); }  // of one window at most
  // Returns true if `now` exceeds `before` by several standard errors and by a few per cent.
  bool surely_above(const LossMean& now, const LossMean& before) const;
  double lowest() const { return lowest_; }
  // Returns true if the median of the last few losses is near the lowest one, or not known.
  bool ends_well() const { return recent_.size() < kLast || near(kLast); }

  void forget_recent() {
    recent_.clear();
    above_ = risen_ = 0;
  }

  struct State {
    double lowest = 0;
    std::uint64_t above = 0;
    std::vector<double> recent{};
    std::uint64_t risen = 0, since = 0;
    std::vector<double> first{};
  };
  State state() const {
    return {lowest_, above_, {recent_.begin(), recent_.end()}, risen_, since_, first_};
  }
  // Restores a state, which may be that of a watch with another window.
  void restore(const State& state);

 private:
  static constexpr std::size_t kLast = 5;
  // kForgotten and kNear are shares of what was learned (chance - lowest loss). kNoise is a share
  // of the lowest loss.
  static constexpr double kForgotten = 0.8, kNoise = 0.1, kNear = 0.15;

  bool has_exploded() const;
  bool is_above() const;
  bool has_risen() const;
  bool surely_above_first() const {  // true at most once per window, so that no loss counts twice
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
  double lowest_ = std::numeric_limits<double>::infinity();  // lowest of the first loss and medians
  std::uint64_t above_ = 0;    // number of losses in a row for which is_above() was true
  std::uint64_t risen_ = 0;    // number of losses in a row for which has_risen() was true
  std::vector<double> first_;  // the first window of losses since expect_falling()
  std::uint64_t since_ = 0;    // number of losses after that window
  std::deque<double> recent_;  // the last window of losses
};

}  // namespace omni
