// Forecasts the backlog of a kind of workers. Ready tasks are only its beginning: other tasks
// depend on them. The forecast uses past ratios of following work to ready work, by sort of task;
// the graph itself is not known.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace omni {

class BacklogForecast {
 public:
  // Tasks of one codelet (any number of its own) and one priority are alike.
  using Sort = std::pair<std::uintptr_t, int>;

  // A task became ready; `ready_work` is all ready work, in one unit of time.
  void note(Sort sort, double ready_work) {
    History& history = histories_[sort];
    ++history.notes;
    history.ready += ready_work;
    history.begun += begun_;
    noted_ = true;
  }

  // A task begins.
  void began(Sort sort, double work) {
    begun_ += work;
    histories_[sort].until = begun_;
  }

  // Nothing is ready.
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

  // The work that is expected to come, once a task of this sort is ready; at least `ready_work`.
  // In proportion to what is ready, but no more than usual: near the end little follows it.
  double expected(Sort sort, double ready_work) const {
    const auto found = histories_.find(sort);
    if (found == histories_.end() || found->second.foreseen == 0) return ready_work;
    const History& history = found->second;
    return std::max(ready_work, std::min(history.came / history.foreseen * ready_work,
                                         history.came / history.count));
  }

 private:
  static constexpr double kKept = 0.9;  // of what was learnt, each time that nothing is ready

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
