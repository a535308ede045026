// Forecasts the backlog of a kind of workers. Ready tasks are only its beginning: other tasks
// depend on them. The forecast uses past ratios of following work to ready work, by sort of task;
// the graph itself is not known.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace omni {

class BacklogForecast {
 public:
  // Tasks of one codelet (any number of its own) and one priority are alike.
  using Sort = std::pair<std::uintptr_t, int>;

  // A task became ready; `ready_work` is all ready work, in one unit of time.
  void note(Sort sort, double ready_work);
  void began(Sort sort, double work);  // a task
  void ran_empty();                    // nothing is ready

  // The work that is expected to come, once a task of this sort is ready; at least `ready_work`.
  double expected(Sort sort, double ready_work) const;

 private:
  struct History {
    double notes = 0, ready = 0, begun = 0;    // sums at the notes since nothing was ready
    double until = 0;                          // begun when the last one began
    double count = 0, foreseen = 0, came = 0;  // before; the longer ago, the less it counts
  };
  std::map<Sort, History> histories_;
  double begun_ = 0;  // since the start
  bool noted_ = false;
};

}  // namespace omni
