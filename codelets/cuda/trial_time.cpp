#include "codelets/cuda/trial_time.hpp"

#include <algorithm>

namespace omni {

TrialTime& TrialTime::of_process() {
  static TrialTime all;
  return all;
}

void TrialTime::set(double seconds_at_start, double share, double patience) {
  const std::lock_guard lock(mutex_);
  seconds_at_start_ = seconds_at_start;
  share_ = share;
  patience_ = patience;
  spent_ = 0;
  lifts_ = 0;
  first_.reset();
}

void TrialTime::lift() {
  const std::lock_guard lock(mutex_);
  ++lifts_;
}

void TrialTime::lower() {
  const std::lock_guard lock(mutex_);
  lifts_ = std::max(lifts_ - 1, 0);
}

bool TrialTime::lifted() const {
  const std::lock_guard lock(mutex_);
  return lifts_ > 0;
}

double TrialTime::patience() const {
  const std::lock_guard lock(mutex_);
  return patience_;
}

bool TrialTime::left(Clock::time_point now, int ranks) const {
  const std::lock_guard lock(mutex_);
  if (lifts_ > 0 || !first_) return true;
  const double passed = std::chrono::duration<double>(now - *first_).count();
  return spent_ < seconds_at_start_ + share_ / ranks * (passed - spent_);
}

void TrialTime::spend(Clock::time_point from, Clock::time_point to) {
  const std::lock_guard lock(mutex_);
  if (!first_) first_ = from;
  spent_ += std::chrono::duration<double>(to - from).count();
}

}  // namespace omni
