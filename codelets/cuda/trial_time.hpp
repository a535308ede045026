// TrialTime limits how long a process tries algorithms of libraries on its GPUs. A training starts
// after some seconds with the best that was found so far. Later trials may then take a share of the
// time that passes. Ranks wait for each other, so all ranks together have one share.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>

#include "runtime/communicator/ranks.hpp"

namespace omni {

class TrialTime {
 public:
  using Clock = std::chrono::steady_clock;

  explicit TrialTime(double seconds_at_start = 10, double share = 0.1)
      : seconds_at_start_(seconds_at_start), share_(share) {}
  // While a Lifted lives, every shape tries all algorithms when it is first met. Programs that
  // measure make one.
  class Lifted {
   public:
    Lifted() { of_process().lift(); }
    ~Lifted() { of_process().lower(); }
    Lifted(const Lifted&) = delete;
    Lifted& operator=(const Lifted&) = delete;
  };
  static TrialTime& of_process();

  // Sets other limits, and forgets what was spent. Tests call it.
  void set(double seconds_at_start, double share, double patience = kPatience);
  void lift();   // see Lifted
  void lower();  // undoes one lift()
  bool lifted() const;
  // Returns the seconds for which trials wait until no other worker computes on their GPU.
  double patience() const;

  // Returns whether a trial may begin now.
  bool left(Clock::time_point now = Clock::now(), int ranks = ranks::size()) const;
  // Counts the time of a trial.
  void spend(Clock::time_point from, Clock::time_point to);

 private:
  static constexpr double kPatience = 60;  // s

  mutable std::mutex mutex_;
  double seconds_at_start_, share_, patience_ = kPatience, spent_ = 0;
  int lifts_ = 0;
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
