// TimeLimit stops the training before the time of its Slurm job ends (SLURM_JOB_END_TIME), early
// enough to save a checkpoint. Without a job there is no limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/result.hpp"

namespace omni {

class TimeLimit {
 public:
  // Refuses a limit that leaves no time to save a checkpoint of `bytes`.
  Status start(std::uint64_t bytes);
  // Refuses a limit of `left` seconds for the same reason. `where` is the option that gave the
  // limit.
  Status require(const std::string& where, double left, std::uint64_t bytes);
  void note_iteration();        // an iteration has ended
  void pause() { last_ = {}; }  // the time until the next note_iteration() does not count
  void note_save(double seconds);

 private:
  double needed() const { return 2 * save_ + iteration_ + 10; }  // seconds
  void set_alarm() const;

  std::int64_t end_ = 0;                          // seconds since 1970; 0: there is none
  double save_ = 0, iteration_ = 0;               // the longest save and iteration, in seconds
  bool measured_ = false;                         // a save was measured
  std::chrono::steady_clock::time_point last_{};  // end of the last iteration; 0: none
};

}  // namespace omni
