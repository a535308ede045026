// Runs a trace again on paper, with other lengths of tasks.
//
// Kept from the run: which worker runs what in which order, what a task itself costs its worker
// beside the kernel (from asking for it to its start, from its end to the release of its data), the
// pace of the submitting thread between its waits, and how long it takes to go on after a wait. A
// task starts when it is submitted, those it depends on and its worker's previous one are done, and
// those that share data with it by commuting accesses and came earlier are done. A wait of the
// submitting thread ends when the task is done whose end was the last before the wait's end.
// Dropped: whatever else a worker waited for between a task being ready and asking for it. So a
// replay with nothing changed takes less than the run; how much less says what the replay leaves
// out, and changes are to be compared with that replay, not with the run.
#pragma once

#include <span>
#include <vector>

#include "perf/trace/dependencies.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

class Replay {
 public:
  Replay(const Trace& trace, const Dependencies& dependencies);
  // Wall time in seconds; the tasks of codelet i take their length times scale[i].
  double run(std::span<const double> scale) const;

 private:
  struct Step {
    Nanoseconds at = 0;
    std::uint32_t index = 0;  // of a task or a wait
    bool wait = false;
  };
  const Trace& trace_;
  const Dependencies& dependencies_;
  std::vector<Step> steps_;
  std::vector<std::uint32_t> previous_;     // of a task: the one before on its worker
  std::vector<Nanoseconds> own_;            // of a task: from all that it waits for to its start
  std::vector<std::uint32_t> wait_before_;  // of a task: the last wait before its submission
  std::vector<std::uint32_t> trigger_;      // of a wait: the task that ended it
};

}  // namespace omni::perf
