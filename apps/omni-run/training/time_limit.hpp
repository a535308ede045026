// The end of a Slurm job's time, as SLURM_JOB_END_TIME says it: early enough before it the training
// is asked to stop, so that a checkpoint is saved. Without a job there is no end.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/result.hpp"

namespace omni {

class TimeLimit {
 public:
  Status start(std::uint64_t bytes);  // of a checkpoint; refuses a time in which none can be saved
  // Refuses a time of so many seconds, which `where` says, for the same reason.
  Status require(const std::string& where, double left, std::uint64_t bytes);
  void note_iteration();        // one has ended
  void pause() { last_ = {}; }  // what follows is no part of an iteration
  void note_save(double seconds);

 private:
  double needed() const { return 2 * save_ + iteration_ + 10; }  // seconds
  void set_alarm() const;

  std::int64_t end_ = 0;                          // seconds since 1970; 0: there is none
  double save_ = 0, iteration_ = 0;               // the longest, in seconds
  bool measured_ = false;                         // a save
  std::chrono::steady_clock::time_point last_{};  // end of an iteration; at 0: of none
};

}  // namespace omni
