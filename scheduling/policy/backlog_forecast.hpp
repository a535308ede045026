// BacklogForecast forecasts the work of a kind of workers: ready tasks, and tasks that depend on
// them. The task graph is not known. So the forecast uses, for each sort of task, the past ratio of
// the work that followed to the work that was ready.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace omni {

class BacklogForecast {
 public:
  // Tasks of one codelet and one priority are alike, so they have one Sort. The first number
  // identifies the codelet.
  using Sort = std::pair<std::uintptr_t, int>;

  // Call note() when a task becomes ready. `ready_work` is the work of all other ready tasks and
  // what is left of running ones. Work is the sum of tasks' lengths divided by the number of
  // workers, in any unit of time.
  void note(Sort sort, double ready_work) {
    History& history = histories_[sort];
    ++history.notes;
    history.ready += ready_work;
    history.begun += begun_;
    noted_ = true;
  }

  // Call began() when a worker of the kind takes a task.
  void began(Sort sort, double work) {
    begun_ += work;
    histories_[sort].until = begun_;
  }

  // Call ran_empty() when a worker finds no task.
  void ran_empty() {
    if (!noted_) return;
    noted_ = false;
    for (auto& [sort, history] : histories_) {
      if (history.notes == 0) continue;
      const double came = history.notes * history.until - history.begun;
      history.count = kKept * history.count + history.notes;
      history.foreseen = kKept * history.foreseen + history.ready;
      history.came = kKept * history.came + std::max(0.0, came);
      history.notes = history.ready = history.begun = 0;
    }
  }

  // Returns the work that is expected when a task of this sort becomes ready; at least
  // `ready_work`. Near the end of an iteration little is ready and little follows. So the
  // expectation is proportional to the ready work, but at most the past average.
  double expected(Sort sort, double ready_work) const {
    const auto found = histories_.find(sort);
    if (found == histories_.end() || found->second.foreseen == 0) return ready_work;
    const History& history = found->second;
    return std::max(ready_work, std::min(history.came / history.foreseen * ready_work,
                                         history.came / history.count));
  }

 private:
  static constexpr double kKept = 0.9;  // the factor of the older sums at each ran_empty()

  struct History {
    double notes = 0, ready = 0, begun = 0;    // sums over note() calls since ran_empty()
    double until = 0;                          // begun_ after the last task of this sort began
    double count = 0, foreseen = 0, came = 0;  // earlier sums; older ones count less
  };
  std::map<Sort, History> histories_;
  double begun_ = 0;  // work of all tasks that have been taken
  bool noted_ = false;
};

}  // namespace omni
