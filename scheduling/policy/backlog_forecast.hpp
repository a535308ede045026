// How much work is still to come for some workers. What is ready is only its beginning: other tasks
// wait for it. How many times as much it was the last times, until no more tasks of the same sort
// came, is all that is known of the graph.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace omni {

class BacklogForecast {
 public:
  // Tasks of one codelet (any number of its own) and one priority are alike.
  using Sort = std::pair<std::uintptr_t, int>;

  // A task got ready, and with it there is so much ready work. All work is in one unit of time that
  // the workers need for it.
  void note(Sort sort, double ready_work);
  void began(Sort sort, double work);  // a task
  void ran_empty();                    // nothing is ready

  // When a task of this sort gets ready: how much is to come, at least what is ready.
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
