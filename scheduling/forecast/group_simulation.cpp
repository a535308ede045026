#include "scheduling/forecast/group_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "scheduling/forecast/simulated_memory.hpp"
#include "scheduling/forecast/steady_seconds.hpp"
#include "scheduling/policy/dispatcher.hpp"

namespace omni {
namespace {

using Stage = IterationTask::Stage;
using Use = SimulatedTask::Use;

// SimulatedWorkers are the workers of a simulated machine. Each takes ready tasks as the policy
// decides, waits for their data, and runs one task after the other.
class SimulatedWorkers {
 public:
  using Done = std::function<void(int task)>;

  SimulatedWorkers(SimulatedClock& clock, SimulatedMemory& memory, const SimulationOptions& options,
                   Done done)
      : clock_(clock),
        memory_(memory),
        options_(options),
        done_(std::move(done)),
        tasks_(memory, options.in_turn, [this](int id, int worker) { ready(id, worker); }),
        workers_(options.machine.workers()),
        dispatcher_(Facts{*this}, clock.now()),
        chance_(options.seed),
        jitter_(1 - options.jitter, 1 + options.jitter) {
    for (std::size_t kind = 0; kind < options.machine.kinds.size(); ++kind)
      for (const int worker : options.machine.kinds[kind].workers) workers_[worker].kind = kind;
    for (std::size_t number = 0; number < workers_.size(); ++number) {
      Worker& worker = workers_[number];
      const MachineModel::Kind& kind = options.machine.kinds[worker.kind];
      dispatcher_.add_worker(static_cast<unsigned>(number), kind.type, kind.memory);
      for (const std::vector<int>& members : options.layout)
        worker.of_group.push_back(std::ranges::count(members, static_cast<int>(number)) > 0);
    }
  }

  void submit(const IterationTask& task, int group, int iteration) {
    tasks_.submit(task, group, iteration);
  }
  const SimulatedTask& task(int id) const { return tasks_[id]; }

 private:
  // Facts answers what Dispatcher asks about tasks. The simulation identifies a task by a number.
  struct Facts {
    static constexpr double kMicrosecond = 1e-6;
    const SimulatedWorkers& of;
    int priority(int id) const { return of.tasks_[id].task->priority; }
    BacklogForecast::Sort sort(int id) const {
      return {of.tasks_[id].task->codelet, of.tasks_[id].task->priority};
    }
    bool holds_shared(int id) const {
      return std::ranges::count(of.tasks_[id].uses, AccessMode::accumulate, &Use::mode) > 0;
    }
    bool runs(int id, unsigned number) const {
      return !std::isinf(of.length(id, number)) && is_for(id, number);
    }
    bool is_for(int id, unsigned number) const {
      const SimulatedTask& task = of.tasks_[id];
      return task.task->any_worker || task.group == kNoGroup ||
             of.workers_[number].of_group[task.group];
    }
    std::optional<double> length(int id, const WorkerKind<int>& kind) const {
      for (const unsigned worker : kind.workers)
        if (runs(id, worker)) return of.length(id, worker);
      return std::nullopt;
    }
    // Dispatcher uses a guess where a length is missing or may be wrong. In the simulation all
    // lengths are exact, and so is the guess.
    double guess(int id, const WorkerKind<int>& kind) const {
      return of.length(id, kind.workers.front());
    }

    double transfer(int id, unsigned memory) const {
      double seconds = 0;
      for (const Use& use : of.tasks_[id].uses)
        seconds += of.memory_.transfer_seconds(use.datum, memory);
      return seconds;
    }

    double back(int id, unsigned memory) const {
      double seconds = 0;
      for (const Return& each : of.returns(id, memory))
        seconds += of.memory_.seconds(each.datum, memory, each.memory);
      return seconds;
    }

    void takes(int id, unsigned memory) const {
      for (const Use& use : of.tasks_[id].uses) of.memory_.used(use.datum, memory);
    }
  };
  struct Worker {
    std::size_t kind;
    int taken = 0;
    bool fetches = false;
    bool asleep = true;
    double free_at = 0;
    std::vector<bool> of_group{};
  };

  // A Return transfers data that a task updates back to the memory where they were used last.
  struct Return {
    std::size_t datum;
    unsigned memory;
  };

  std::vector<Return> returns(int id, unsigned memory) const {
    std::vector<Return> all;
    for (const Use& use : tasks_[id].uses) {
      const auto user = memory_.last_user(use.datum);
      if (use.mode == AccessMode::read_write && user && *user != memory)
        all.push_back({use.datum, *user});
    }
    return all;
  }

  void ready(int id, int made_ready_by) {
    auto place = dispatcher_.only_place();
    if (dispatcher_.has_choice()) {
      place = dispatcher_.place(id, clock_.now());
      const SimulatedTask& task = tasks_[id];
      for (const Use& use : task.uses)
        if (use.mode != AccessMode::write)
          memory_.fetch(use.datum, place.kind->node, task.task->priority, nullptr);
      if (place.returns) returns_[id] = returns(id, place.kind->node);
    }
    dispatcher_.push(place, id, made_ready_by);
    wake_one(*place.kind, id, made_ready_by);
    if (place.helper != nullptr) wake_one(*place.helper, id, made_ready_by);
  }

  // Wakes one idle worker that may run the task. The worker that made the task ready looks for
  // tasks by itself.
  void wake_one(const WorkerKind<int>& kind, int id, int made_ready_by) {
    for (const unsigned number : kind.workers) {
      Worker& worker = workers_[number];
      if (!worker.asleep || static_cast<int>(number) == made_ready_by ||
          !Facts{*this}.runs(id, number))
        continue;
      worker.asleep = false;
      clock_.at(clock_.now(), [this, number] { take(number); });
      return;
    }
  }

  void take(std::size_t number) {
    Worker& worker = workers_[number];
    const MachineModel::Kind& kind = options_.machine.kinds[worker.kind];
    if (worker.taken == kind.at_once || worker.fetches) return;
    const auto ready = dispatcher_.pop(static_cast<unsigned>(number), clock_.now());
    worker.asleep = !ready;
    if (!ready) return;
    const int id = ready->task;
    ++worker.taken;
    worker.fetches = true;
    const SimulatedTask& task = tasks_[id];
    auto missing = std::make_shared<int>(1);  // fetches under way, and 1 for the loop below
    const auto arrived = [this, id, number, missing] {
      if (--*missing == 0)
        clock_.at(clock_.now() + options_.task_overhead, [this, id, number] { start(id, number); });
    };
    for (const Use& use : task.uses) {
      if (use.mode == AccessMode::write) continue;
      ++*missing;
      memory_.fetch(use.datum, kind.memory, task.task->priority, arrived);
    }
    arrived();
  }

  void start(int id, std::size_t number) {
    Worker& worker = workers_[number];
    for (const Use& use : tasks_[id].uses)
      if (use.mode != AccessMode::read)
        memory_.written(use.datum, options_.machine.kinds[worker.kind].memory);
    worker.free_at = std::max(worker.free_at, clock_.now()) + length(id, number) * jitter_(chance_);
    clock_.at(worker.free_at, [this, id, number] { finish(id, number); });
    worker.fetches = false;
    take(number);
  }

  void finish(int id, std::size_t number) {
    --workers_[number].taken;
    dispatcher_.finished(static_cast<unsigned>(number), clock_.now());
    if (const auto ours = returns_.extract(id); !ours.empty())
      for (const Return& each : ours.mapped())
        memory_.fetch(each.datum, each.memory, std::numeric_limits<int>::min(), nullptr);
    tasks_.done(id, static_cast<int>(number));
    done_(id);
    take(number);
  }

  // Returns the task's length without its random variation, which the policy cannot know.
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
  std::map<int, std::vector<Return>> returns_;  // by task; they begin when the task is done
  std::minstd_rand chance_;
  std::uniform_real_distribution<double> jitter_;
};

// Begins and completes iterations of groups as Trainer does.
class Simulation {
 public:
  Simulation(const std::vector<IterationTask>& iteration, const SimulationOptions& options)
      : iteration_(iteration),
        options_(options),
        memory_(clock_, options.machine),
        workers_(clock_, memory_, options, [this](int task) { done(task); }),
        groups_(options.layout.size()) {}

  double run() {
    if (options_.in_turn) {
      take_turns();
    } else {
      for (int group = 0; group < count(); ++group) begin(group);
    }
    while (clock_.step()) {
    }
    return steady_seconds(finished_at_, count());
  }

 private:
  struct Iteration {
    int number = 0, gates_left = 0, updates_left = 0;
  };
  struct Group {
    int begun = 0, completed = 0, collected = 0;
    Iteration under_way[kUnderWay] = {};
  };

  int count() const { return static_cast<int>(groups_.size()); }
  Group& group_of(int group) { return groups_[group]; }
  bool may_begin(const Group& group) const {
    return begun_ < options_.iterations && group.completed == group.begun &&
           group.begun - group.collected < kUnderWay;
  }

  void take_turns() {
    while (begun_ - collected_ < count() + 1 && may_begin(group_of(begun_ % count()))) {
      const int group = begun_ % count();
      begin(group);
      complete(group);
    }
  }

  void begin(int number_of_group) {
    Group& group = group_of(number_of_group);
    if (!may_begin(group)) return;
    Iteration& own = group.under_way[group.begun++ % kUnderWay];
    own = {.number = begun_++};
    for (const IterationTask& task : iteration_) {
      own.gates_left += task.gate ? 1 : 0;
      own.updates_left += task.update ? 1 : 0;
    }
    for (; decoding_ <= own.number + kPrefetched; ++decoding_)
      submit(Stage::decode, kNoGroup, decoding_);
    submit(Stage::begin, number_of_group, own.number);
  }

  void complete(int number_of_group) {
    Group& group = group_of(number_of_group);
    submit(Stage::complete, number_of_group, group.under_way[group.completed++ % kUnderWay].number);
  }

  void submit(Stage stage, int group, int iteration) {
    for (const IterationTask& task : iteration_)
      if (task.stage == stage) workers_.submit(task, group, iteration);
  }

  void done(int id) {
    const SimulatedTask& task = workers_.task(id);
    if (task.group == kNoGroup) return;
    Group& group = group_of(task.group);
    Iteration& own = group.under_way[group.under_way[0].number == task.iteration ? 0 : 1];
    if (task.task->gate && --own.gates_left == 0 && !options_.in_turn) {
      complete(task.group);
      begin(task.group);
    }
    if (task.task->update && --own.updates_left == 0) {
      finished_at_.push_back(clock_.now());
      ++group.collected;
      ++collected_;
      options_.in_turn ? take_turns() : begin(task.group);
    }
  }

  const std::vector<IterationTask>& iteration_;
  const SimulationOptions& options_;
  SimulatedClock clock_;
  SimulatedMemory memory_;
  SimulatedWorkers workers_;
  std::vector<Group> groups_;
  std::vector<double> finished_at_;  // s; the ends of all iterations
  int begun_ = 0, collected_ = 0, decoding_ = 0;
};

}  // namespace

double simulate_groups(const std::vector<IterationTask>& iteration,
                       const SimulationOptions& options) {
  return Simulation(iteration, options).run();
}

}  // namespace omni
