#include "codelets/cuda/trial_time.hpp"

namespace omni {

TrialTime& TrialTime::of_process() {
  static TrialTime all;
  return all;
}

void TrialTime::set(double seconds_at_start, double share) {
  const std::lock_guard lock(mutex_);
  seconds_at_start_ = seconds_at_start;
  share_ = share;
  spent_ = 0;
  lifted_ = false;
  first_.reset();
}

void TrialTime::lift() {
  const std::lock_guard lock(mutex_);
  lifted_ = true;
}

bool TrialTime::lifted() const {
  const std::lock_guard lock(mutex_);
  return lifted_;
}

bool TrialTime::left(Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  if (lifted_ || !first_) return true;
  const double passed = std::chrono::duration<double>(now - *first_).count();
  return spent_ < seconds_at_start_ + share_ * (passed - spent_);
}

void TrialTime::spend(Clock::time_point from, Clock::time_point to) {
  const std::lock_guard lock(mutex_);
  if (!first_) first_ = from;
  spent_ += std::chrono::duration<double>(to - from).count();
}

}  // namespace omni
