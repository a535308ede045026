// Runs a trace again on paper, with other lengths of tasks.
//
// Kept from the run: which worker runs what in which order, what a task costs its worker beside the
// kernel (from asking for it to its start, from its end to the release of its data), the pace of
// the submitting thread between its waits, and how long it takes to go on after a wait. A task
// starts when it is submitted, and when the tasks are done that it depends on, that its worker ran
// before it, and that updated the same data by commuting accesses before it. A wait of the
// submitting thread ends when the task is done whose end was the last before the wait's end.
// Dropped: whatever else passed between a task being ready and its worker asking for it. So a
// replay with nothing changed takes less time than the run; how much less says what the replay
// leaves out, and a replay with changes is to be compared with that one, not with the run.
#pragma once

#include <span>
#include <vector>

#include "perf/trace/dependencies.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

class Replay {
 public:
  Replay(const Trace& trace, const Dependencies& dependencies);
  // Wall time in seconds; tasks of codelet i take their length times scale[i].
  double run(std::span<const double> scale) const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Step {
    Nanoseconds at = 0;
    bool is_task = false;  // or a wait, which comes first
    std::uint32_t index = 0;
    auto operator<=>(const Step&) const = default;
  };
  struct Waited {
    std::uint32_t before = kNone;   // the wait before, of the same thread
    std::uint32_t trigger = kNone;  // the task that ended it
  };
  void plan_waits();
  void plan_tasks();

  const Trace& trace_;
  const Dependencies& dependencies_;
  std::vector<Step> steps_;  // in an order in which each needs only earlier ones
  std::vector<Waited> waits_;
  std::vector<std::uint32_t> wait_before_;    // of a task: the last one before its submission
  std::vector<Nanoseconds> own_;              // of a task: from all that it waits for to its start
  std::vector<std::uint32_t> waits_for_;      // tasks, of all tasks; joins are left where they are
  std::vector<std::size_t> first_waits_for_;  // of a task: where its own begin
};

}  // namespace omni::perf
