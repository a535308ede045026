// Simulated workers: they take ready tasks as the policy decides, wait for the data, and run one
// task after the other.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "scheduling/model/group_simulation.hpp"
#include "scheduling/model/simulated_memory.hpp"
#include "scheduling/model/simulated_tasks.hpp"
#include "scheduling/policy/dispatcher.hpp"

namespace omni {

class SimulatedWorkers {
 public:
  using Done = std::function<void(int task)>;
  SimulatedWorkers(SimulatedClock& clock, SimulatedMemory& memory, const SimulationOptions& options,
                   Done done);

  void submit(const IterationTask& task, int group, int iteration) {
    tasks_.submit(task, group, iteration);
  }
  const SimulatedTask& task(int id) const { return tasks_[id]; }

 private:
  // What the policy asks about tasks, which are numbers here.
  struct Facts {
    static constexpr double kMicrosecond = 1e-6;
    const SimulatedWorkers& of;
    int priority(int id) const;
    BacklogForecast::Sort sort(int id) const;
    bool holds_shared(int id) const;
    bool runs(int id, unsigned worker) const;
    bool is_for(int id, unsigned worker) const;
    std::optional<double> length(int id, const WorkerKind<int>& kind) const;
    double guess(int id, const WorkerKind<int>& kind) const;
    double transfer(int id, unsigned memory) const;
    double back(int id, unsigned memory) const;
    void takes(int id, unsigned memory) const;
  };
  struct Worker {
    std::size_t kind;
    int taken = 0;
    bool fetches = false;
    bool asleep = true;
    double free_at = 0;
    std::vector<bool> of_group{};
  };

  // Data that a task updates return to the memory where they were used last.
  struct Return {
    std::size_t datum;
    unsigned memory;
  };
  std::vector<Return> returns(int id, unsigned memory) const;
  void ready(int id, int made_ready_by);
  void wake_one(const WorkerKind<int>& kind, int id, int made_ready_by);
  void take(std::size_t worker);
  void start(int id, std::size_t worker);
  void finish(int id, std::size_t worker);
  // The task's length as the policy knows it: without random variation.
  double length(int id, std::size_t worker) const {
    return tasks_[id].task->seconds[workers_[worker].kind];
  }

  SimulatedClock& clock_;
  SimulatedMemory& memory_;
  const SimulationOptions& options_;
  Done done_;
  SimulatedTasks tasks_;
  std::vector<Worker> workers_;
  Dispatcher<int, Facts> dispatcher_;
  std::map<int, std::vector<Return>> returns_;  // when the task is done
  std::minstd_rand chance_;
  std::uniform_real_distribution<double> jitter_;
};

}  // namespace omni
