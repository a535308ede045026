// TrialTime limits how long a process tries algorithms of libraries on its GPUs. A training starts
// after some seconds with the best that was found so far. Later trials may then take a share of the
// time that passes.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>

namespace omni {

class TrialTime {
 public:
  using Clock = std::chrono::steady_clock;

  explicit TrialTime(double seconds_at_start = 10, double share = 0.1)
      : seconds_at_start_(seconds_at_start), share_(share) {}
  static TrialTime& of_process();

  // Sets other limits, and forgets what was spent. Tests call it.
  void set(double seconds_at_start, double share);
  // Lets every shape try all algorithms when it is first met. Programs that measure call it.
  void lift();
  bool lifted() const;

  // Returns whether a trial may begin now.
  bool left(Clock::time_point now = Clock::now()) const;
  // Counts the time of a trial.
  void spend(Clock::time_point from, Clock::time_point to);

 private:
  mutable std::mutex mutex_;
  double seconds_at_start_, share_, spent_ = 0;
  bool lifted_ = false;
  std::optional<Clock::time_point> first_;  // the beginning of the first trial
};

// A Trial counts the time of its life.
class Trial {
 public:
  ~Trial() { TrialTime::of_process().spend(from_, TrialTime::Clock::now()); }

 private:
  TrialTime::Clock::time_point from_ = TrialTime::Clock::now();
};

}  // namespace omni
