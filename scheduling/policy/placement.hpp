// Chooses the kind of workers for a ready task: the one predicted to finish it first. Kinds whose
// models are missing or may be wrong are tried now and then, within a budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace omni {

// A kind of workers that could run the task; all times in microseconds.
struct Candidate {
  double wait = 0;      // until one of them is free for it, also of what is still to come
  double ready = 0;     // of that, for what is ready already
  double transfer = 0;  // of the data that is elsewhere
  double back = 0;      // of its updated data, to where they were used last
  double length = 0;    // of the best implementation; NaN: not known yet
  double guess = 0;     // in its place, from operations and bytes alone
};

// The candidate would finish the task and return its updated data before the other kind could
// begin.
bool is_back_before(const Candidate& candidate, const Candidate& other);

class Placement {
 public:
  // The index of a candidate; there is at least one. `now`: since the start.
  std::size_t choose(std::span<const Candidate> candidates, double now);

 private:
  std::uint64_t choices_ = 0;
  double spent_ = 0;
};

}  // namespace omni
