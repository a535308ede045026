// What --auto may lose in trials: a tenth of a training's iterations, all searches together. A
// search that lost more leaves less to the next one.
#pragma once

#include <algorithm>
#include <cstdint>

namespace omni {

class TrialBudget {
 public:
  static constexpr std::uint64_t kShare = 10;       // 1 / of the training
  static constexpr std::uint64_t kLeastTrial = 30;  // iterations; shorter ones say nothing

  TrialBudget() = default;
  TrialBudget(std::int64_t left, std::uint64_t granted) : left_(left), granted_(granted) {}
  std::int64_t left() const { return left_; }  // iterations
  std::uint64_t granted() const { return granted_; }

  // From iteration `now` there is no other search before `until`. Nothing is granted twice, however
  // often a search is stopped and begun again.
  void grant(std::uint64_t now, std::uint64_t until) {
    now = std::max(now, granted_);
    if (until <= now) return;
    left_ += signed_of((until - now) / kShare);
    granted_ = until;
  }
  // What a search has found is part of the training after all.
  void lose(std::uint64_t iterations) { left_ -= signed_of(iterations); }
  void keep(std::uint64_t iterations) { left_ += signed_of(iterations); }

  bool can_afford_more() const { return left_ > 0; }
  // So that `trials` of them can be made.
  std::uint64_t trial_length(std::uint64_t trials) const {
    return std::max(kLeastTrial,
                    static_cast<std::uint64_t>(std::max<std::int64_t>(0, left_)) / trials);
  }

 private:
  static std::int64_t signed_of(std::uint64_t iterations) {
    return static_cast<std::int64_t>(iterations);
  }
  std::int64_t left_ = 0;      // iterations
  std::uint64_t granted_ = 0;  // until this one
};

}  // namespace omni
