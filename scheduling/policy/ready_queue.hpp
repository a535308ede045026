// ReadyQueue holds the tasks that may run. The task with the highest priority comes first. Among
// tasks of equal priority, a worker gets the one whose input it has just computed, otherwise the
// oldest.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>

namespace omni {

template <class Task>
struct ReadyTask {
  Task task;
  int made_ready_by;  // the worker that ran the last task it waited for; -1: none
  double length = 0;  // expected, in any unit
};

template <class Task>
class ReadyQueue {
 public:
  using Ready = ReadyTask<Task>;

  void push(const Ready& ready, int priority) {
    Equals& equals = queues_[priority];
    equals.tasks.push_back(ready);
    equals.length += ready.length;
  }

  bool empty() const { return queues_.empty(); }
  int highest_priority() const { return queues_.begin()->first; }  // the queue must not be empty

  // Returns the summed length of all tasks that would run before a new one of this priority.
  double length_before(int priority) const {
    double length = 0;
    for (auto queue = queues_.begin(); queue != queues_.end() && queue->first >= priority; ++queue)
      length += queue->second.length;
    return length;
  }
  double length() const { return length_before(std::numeric_limits<int>::min()); }

  // Takes a task for a worker; returns nothing if `runs` refuses all tasks. Only the oldest few of
  // a priority are searched for one that the worker made ready, so that the search stays cheap.
  std::optional<Ready> pop(int worker, auto runs) {
    constexpr std::size_t kConsidered = 8;
    for (auto queue = queues_.begin(); queue != queues_.end(); ++queue) {
      std::deque<Ready>& tasks = queue->second.tasks;
      auto found = tasks.end();
      std::size_t runnable = 0;
      for (auto each = tasks.begin(); each != tasks.end() && runnable < kConsidered; ++each) {
        if (!runs(each->task)) continue;
        if (++runnable == 1) found = each;
        if (each->made_ready_by != worker) continue;
        found = each;
        break;
      }
      if (found == tasks.end()) continue;
      return take(queue, found);
    }
    return std::nullopt;
  }

  // Takes, for a worker of another kind, the first task above this priority that `runs` and `wants`
  // accept.
  std::optional<Ready> pop_above(int above, auto runs, auto wants) {
    std::size_t considered = 0;
    for (auto queue = queues_.begin(); queue != queues_.end() && queue->first > above; ++queue) {
      std::deque<Ready>& tasks = queue->second.tasks;
      for (auto each = tasks.begin(); each != tasks.end(); ++each) {
        if (!runs(each->task)) continue;
        if (considered++ == kForOthers) return std::nullopt;
        if (wants(each->task)) return take(queue, each);
      }
    }
    return std::nullopt;
  }

  // Takes, for a worker of another kind, the last task that `runs` and `wants` accept.
  std::optional<Ready> pop_last(auto runs, auto wants) {
    std::size_t considered = 0;
    for (auto queue = queues_.end(); queue != queues_.begin();) {
      --queue;
      std::deque<Ready>& tasks = queue->second.tasks;
      for (auto each = tasks.end(); each != tasks.begin();) {
        if (!runs((--each)->task)) continue;
        if (considered++ == kForOthers) return std::nullopt;
        if (wants(each->task)) return take(queue, each);
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kForOthers = 8;  // tasks for which `wants` is called

  struct Equals {  // tasks of one priority
    std::deque<Ready> tasks;
    double length = 0;
  };
  using Queues = std::map<int, Equals, std::greater<>>;

  Ready take(typename Queues::iterator queue, typename std::deque<Ready>::iterator found) {
    const Ready ready = *found;
    queue->second.length -= ready.length;
    queue->second.tasks.erase(found);
    if (queue->second.tasks.empty()) queues_.erase(queue);  // this also drops rounding errors
    return ready;
  }

  Queues queues_;
};

}  // namespace omni
