// Dependencies of simulated tasks: StarPU's rules for tasks that use the same data, in submission
// order.
#pragma once

#include <algorithm>
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

  void submit(const IterationTask& task, int group, int iteration) {
    const int id = static_cast<int>(tasks_.size());
    tasks_.push_back({.task = &task, .group = group, .iteration = iteration});
    for (const IterationTask::Use& use : task.uses) {
      at(id).data.push_back(datum_of(use, group, iteration));
      at(id).modes.push_back(mode_of(task, use));
      order(id, at(id).data.back(), at(id).modes.back());
    }
    if (at(id).waits_for == 0) acquire(id, kNoWorker);
  }

  void done(int id, int worker) {
    at(id).done = true;
    for (std::size_t i = 0; i < at(id).data.size(); ++i)
      if (at(id).modes[i] == AccessMode::accumulate) release(at(id).data[i], worker);
    for (const int next : at(id).successors)
      if (--at(next).waits_for == 0) acquire(next, worker);
  }

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

  AccessMode mode_of(const IterationTask& task, const IterationTask::Use& use) const {
    const bool of_a_master = task.update && !task.any_worker &&
                             use.owner == IterationTask::Owner::all &&
                             use.mode == AccessMode::read_write;
    return of_a_master && !in_turn_ ? AccessMode::accumulate : use.mode;
  }

  std::size_t datum_of(const IterationTask::Use& use, int group, int iteration) {
    using Owner = IterationTask::Owner;
    const int owner = use.owner == Owner::all     ? kNoGroup
                      : use.owner == Owner::group ? group
                                                  : iteration;
    const auto [place, is_new] = places_.try_emplace({use.data, use.owner, owner}, data_.size());
    if (is_new) {
      memory_.add(use.bytes);
      data_.emplace_back();
    }
    return place->second;
  }

  void order(int id, std::size_t number, AccessMode mode) {
    Datum& datum = data_[number];
    switch (mode) {
      case AccessMode::read:
        wait_for(id, datum.writers);
        datum.readers.push_back(id);
        break;
      case AccessMode::accumulate:
        if (!datum.accumulating || !datum.readers.empty()) {
          datum.before = datum.readers.empty() ? datum.writers : datum.readers;
          datum.writers.clear();
          datum.readers.clear();
          datum.accumulating = true;
        }
        wait_for(id, datum.before);
        datum.writers.push_back(id);
        break;
      case AccessMode::write:
      case AccessMode::read_write:
        wait_for(id, datum.writers);
        wait_for(id, datum.readers);
        datum.writers = {id};
        datum.readers.clear();
        datum.accumulating = false;
        break;
    }
  }

  void wait_for(int id, const std::vector<int>& others) {
    for (const int other : others) {
      if (other == id || at(other).done) continue;
      at(other).successors.push_back(id);
      ++at(id).waits_for;
    }
  }

  // A task holds what it accumulates into from before it is ready until it is done.
  void acquire(int id, int worker) {
    SimulatedTask& task = at(id);
    for (; task.acquired < task.data.size(); ++task.acquired) {
      if (task.modes[task.acquired] != AccessMode::accumulate) continue;
      Datum& datum = data_[task.data[task.acquired]];
      if (datum.holder >= 0 && datum.holder != id) {
        datum.want_to_hold.push_back(id);
        return;
      }
      datum.holder = id;
    }
    ready_(id, worker);
  }

  // To the most urgent one, then to who asked first.
  void release(std::size_t number, int worker) {
    data_[number].holder = -1;
    std::vector<int>& waiting = data_[number].want_to_hold;
    const auto next =
        std::ranges::max_element(waiting, {}, [this](int id) { return at(id).task->priority; });
    if (next == waiting.end()) return;
    const int id = *next;
    waiting.erase(next);
    acquire(id, worker);
  }

  SimulatedTask& at(int id) { return tasks_[id]; }

  SimulatedMemory& memory_;
  bool in_turn_;
  Ready ready_;
  std::deque<SimulatedTask> tasks_;
  std::vector<Datum> data_;  // numbered as in memory_
  std::map<std::tuple<std::uint32_t, IterationTask::Owner, int>, std::size_t> places_;
};

}  // namespace omni
