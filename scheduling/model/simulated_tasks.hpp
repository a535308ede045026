// Dependencies of simulated tasks: StarPU's rules for tasks that use the same data, in submission
// order.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "scheduling/model/group_simulation.hpp"
#include "scheduling/model/simulated_memory.hpp"

namespace omni {

inline constexpr int kNoGroup = -1, kNoWorker = -1;

struct SimulatedTask {
  const IterationTask* task;
  int group, iteration;             // kNoGroup: ahead of all groups
  std::vector<std::size_t> data{};  // of its uses
  std::vector<AccessMode> modes{};
  int waits_for = 0;
  std::size_t acquired = 0;  // of its uses, in the order of data
  bool done = false;
  std::vector<int> successors{};
};

class SimulatedTasks {
 public:
  // `ready` is called with the task and the worker that made it ready.
  using Ready = std::function<void(int task, int worker)>;
  // `in_turn`: updates reach the masters in the order of their submission, else as they arrive.
  SimulatedTasks(SimulatedMemory& memory, bool in_turn, Ready ready)
      : memory_(memory), in_turn_(in_turn), ready_(std::move(ready)) {}

  void submit(const IterationTask& task, int group, int iteration);
  void done(int task, int worker);
  const SimulatedTask& operator[](int task) const { return tasks_[task]; }

 private:
  // The tasks that last used a datum. As in StarPU, the next task on it depends on them.
  struct Datum {
    std::vector<int> writers{};  // one, or several that accumulate
    std::vector<int> readers{};  // since
    bool accumulating = false;
    std::vector<int> before{};  // what the accumulating ones waited for
    int holder = -1;            // the one that accumulates, or will when a worker takes it
    std::vector<int> want_to_hold{};
  };
  AccessMode mode_of(const IterationTask& task, const IterationTask::Use& use) const;
  std::size_t datum_of(const IterationTask::Use& use, int group, int iteration);
  void order(int id, std::size_t datum, AccessMode mode);
  void wait_for(int id, const std::vector<int>& others);
  void acquire(int id, int worker);
  void release(std::size_t datum, int worker);
  SimulatedTask& at(int id) { return tasks_[id]; }

  SimulatedMemory& memory_;
  bool in_turn_;
  Ready ready_;
  std::deque<SimulatedTask> tasks_;
  std::vector<Datum> data_;  // numbered as in memory_
  std::map<std::tuple<std::uint32_t, IterationTask::Owner, int>, std::size_t> places_;
};

}  // namespace omni
