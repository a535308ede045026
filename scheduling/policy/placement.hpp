// Placement chooses the kind of workers for a ready task: the one that is predicted to finish it
// first. A kind that is idle is tried, within a budget, if its model has no length yet. A few tasks
// try other idle kinds, as their models may be wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace omni {

// A Candidate is a kind of workers that could run the task; all times are in one unit.
struct Candidate {
  double wait = 0;      // until a worker is free; counts ready work and forecast work
  double ready = 0;     // the part of `wait` for ready work
  double transfer = 0;  // of data that are in other memories
  double back = 0;      // to return updated data to where they were used last
  double length = 0;    // of the best implementation; NaN: not known yet
  double guess = 0;     // a length from operations and bytes alone
};

// Returns true if the candidate would finish the task and return its updated data before the other
// kind could begin it.
bool is_back_before(const Candidate& candidate, const Candidate& other);

class Placement {
 public:
  // Returns the index of the chosen candidate; there must be at least one. `now` is the time since
  // the start.
  std::size_t choose(std::span<const Candidate> candidates, double now);

 private:
  std::uint64_t choices_ = 0;
  double spent_ = 0;
};

}  // namespace omni
