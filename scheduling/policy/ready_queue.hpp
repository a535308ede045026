// Tasks that may run: the highest priority first; among equals the one whose input the asking
// worker has just made, then the oldest.
#pragma once

#include <deque>
#include <functional>
#include <map>

struct starpu_task;

namespace omni {

class ReadyQueue {
 public:
  // made_ready_by: the worker whose task was the last one it waited for; -1: none.
  void push(starpu_task* task, int priority, int made_ready_by) {
    queues_[priority].push_back({task, made_ready_by});
  }

  // Null when `runs` refuses all. Looks for an own task only among the oldest few: the search must
  // stay cheap.
  template <class Runs>
  starpu_task* pop(int worker, Runs runs) {
    constexpr std::size_t kConsidered = 8;
    for (auto queue = queues_.begin(); queue != queues_.end(); ++queue) {
      std::deque<Entry>& tasks = queue->second;
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
      starpu_task* task = found->task;
      tasks.erase(found);
      if (tasks.empty()) queues_.erase(queue);
      return task;
    }
    return nullptr;
  }

 private:
  struct Entry {
    starpu_task* task;
    int made_ready_by;
  };
  std::map<int, std::deque<Entry>, std::greater<>> queues_;
};

}  // namespace omni
