#include "scheduling/model/group_simulation.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

namespace omni {
namespace {

using Owner = IterationTask::Owner;
using Stage = IterationTask::Stage;

constexpr int kNone = -1;
constexpr int kPrefetched = 2;  // mini-batches decoded ahead
constexpr int kUnderWay = 2;    // iterations of a group that may be begun

class Simulation {
 public:
  Simulation(const std::vector<IterationTask>& iteration, const SimulationOptions& options)
      : iteration_(iteration), options_(options), groups_(options.layout.size()) {
    idle_.resize(static_cast<std::size_t>(options.workers), true);
    may_run_.assign(groups_.size(), std::vector<bool>(idle_.size()));
    for (std::size_t group = 0; group < groups_.size(); ++group)
      for (const int worker : options.layout[group])
        may_run_[group][static_cast<std::size_t>(worker)] = true;
  }

  SimulatedRun run() {
    if (options_.in_turn) {
      take_turns();
    } else {
      for (int group = 0; group < count(); ++group) begin(group);
    }
    while (true) {
      dispatch();
      if (running_.empty()) break;
      const auto [time, instance, worker] = running_.top();
      running_.pop();
      now_ = time;
      idle_[static_cast<std::size_t>(worker)] = true;
      done(instance, worker);
    }
    const int from = options_.iterations / 3;
    const auto counted = static_cast<double>(options_.iterations - from);
    return {(finished_at_.back() - finished_at_[static_cast<std::size_t>(from) - 1]) / counted,
            busy_ / (now_ * options_.workers)};
  }

 private:
  struct Instance {
    const IterationTask* task;
    int group, number;  // iteration
    int waits_for = 0;
    int made_ready_by = kNone;
    bool done = false;
    std::vector<int> successors;
    std::vector<std::size_t> locks;  // data that it accumulates into
  };
  // Who used a datum last, as StarPU keeps it.
  struct Datum {
    std::vector<int> writers;  // one, or several that accumulate
    std::vector<int> readers;  // since
    bool accumulating = false;
    std::vector<int> before;  // what the accumulating ones waited for
    bool locked = false;
  };
  struct Group {
    int begun = 0, completed = 0, finished = 0;
    int gates_left[kUnderWay] = {}, updates_left[kUnderWay] = {};
    int numbers[kUnderWay] = {};
  };

  int count() const { return static_cast<int>(groups_.size()); }
  Group& group_of(int group) { return groups_[static_cast<std::size_t>(group)]; }

  void take_turns() {
    while (begun_ < options_.iterations && begun_ - finished() < count() + 1) {
      const int group = begun_ % count();
      begin(group);
      complete(group);
    }
  }
  int finished() const { return static_cast<int>(finished_at_.size()); }

  void begin(int number_of_group) {
    Group& group = group_of(number_of_group);
    if (begun_ >= options_.iterations || group.completed != group.begun ||
        group.begun - group.finished >= kUnderWay)
      return;
    const int place = group.begun++ % kUnderWay;
    const int number = begun_++;
    group.numbers[place] = number;
    group.gates_left[place] = group.updates_left[place] = 0;
    for (const IterationTask& task : iteration_) {
      group.gates_left[place] += task.gate ? 1 : 0;
      group.updates_left[place] += task.update ? 1 : 0;
    }
    for (; decoding_ <= number + kPrefetched; ++decoding_) submit(Stage::decode, kNone, decoding_);
    submit(Stage::begin, number_of_group, number);
  }

  void complete(int number_of_group) {
    Group& group = group_of(number_of_group);
    const int place = group.completed++ % kUnderWay;
    submit(Stage::complete, number_of_group, group.numbers[place]);
  }

  void submit(Stage stage, int group, int number) {
    for (const IterationTask& task : iteration_) {
      if (task.stage != stage) continue;
      const int id = static_cast<int>(instances_.size());
      instances_.push_back(
          {.task = &task, .group = group, .number = number, .successors = {}, .locks = {}});
      for (const IterationTask::Use& use : task.uses) order(id, use, group, number);
      if (instances_.back().waits_for == 0) ready_.push_back(id);
    }
  }

  void wait_for(int id, const std::vector<int>& others) {
    for (const int other : others) {
      Instance& before = instances_[static_cast<std::size_t>(other)];
      if (other == id || before.done) continue;
      before.successors.push_back(id);
      ++instances_[static_cast<std::size_t>(id)].waits_for;
    }
  }

  void order(int id, const IterationTask::Use& use, int group, int number) {
    const int owner = use.owner == Owner::all ? kNone : use.owner == Owner::group ? group : number;
    const std::size_t place =
        data_index_.try_emplace({use.data, use.owner, owner}, data_.size()).first->second;
    if (place == data_.size()) data_.emplace_back();
    Datum& datum = data_[place];
    switch (use.mode) {
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
        instances_[static_cast<std::size_t>(id)].locks.push_back(place);
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

  // Every idle worker takes the most urgent task that it may run.
  void dispatch() {
    for (std::size_t worker = 0; worker < idle_.size(); ++worker) {
      if (!idle_[worker]) continue;
      const auto best = std::min_element(ready_.begin(), ready_.end(), [&](int a, int b) {
        return rank(a, worker) < rank(b, worker);
      });
      if (best == ready_.end() || !can_run(*best, worker)) continue;
      Instance& instance = instances_[static_cast<std::size_t>(*best)];
      const double length = instance.task->seconds + options_.task_overhead;
      for (const std::size_t lock : instance.locks) data_[lock].locked = true;
      running_.push({now_ + length, *best, static_cast<int>(worker)});
      busy_ += length;
      idle_[worker] = false;
      ready_.erase(best);
    }
  }

  bool can_run(int id, std::size_t worker) const {
    const Instance& instance = instances_[static_cast<std::size_t>(id)];
    if (!instance.task->any_worker && instance.group != kNone &&
        !may_run_[static_cast<std::size_t>(instance.group)][worker])
      return false;
    return std::none_of(instance.locks.begin(), instance.locks.end(),
                        [this](std::size_t lock) { return data_[lock].locked; });
  }
  // Lowest first: what can run; priority; made ready by this worker; oldest.
  std::tuple<bool, int, bool, int> rank(int id, std::size_t worker) const {
    const Instance& instance = instances_[static_cast<std::size_t>(id)];
    return {!can_run(id, worker), -instance.task->priority,
            instance.made_ready_by != static_cast<int>(worker), id};
  }

  void done(int id, int worker) {
    Instance& instance = instances_[static_cast<std::size_t>(id)];
    instance.done = true;
    for (const std::size_t lock : instance.locks) data_[lock].locked = false;
    for (const int next : instance.successors) {
      Instance& successor = instances_[static_cast<std::size_t>(next)];
      if (--successor.waits_for > 0) continue;
      successor.made_ready_by = worker;
      ready_.push_back(next);
    }
    if (instance.group == kNone) return;
    Group& group = group_of(instance.group);
    const int number_of_group = instance.group, number = instance.number;
    const int place = group.numbers[0] == number ? 0 : 1;
    if (instance.task->gate && --group.gates_left[place] == 0 && !options_.in_turn) {
      complete(number_of_group);
      begin(number_of_group);
    }
    if (instances_[static_cast<std::size_t>(id)].task->update && --group.updates_left[place] == 0) {
      ++group.finished;
      finished_at_.push_back(now_);
      options_.in_turn ? take_turns() : begin(number_of_group);
    }
  }

  const std::vector<IterationTask>& iteration_;
  const SimulationOptions& options_;
  std::vector<Group> groups_;
  std::vector<Instance> instances_;
  std::map<std::tuple<std::uint32_t, Owner, int>, std::size_t> data_index_;
  std::vector<Datum> data_;
  std::vector<int> ready_;
  std::vector<bool> idle_;
  std::vector<std::vector<bool>> may_run_;
  std::priority_queue<std::tuple<double, int, int>, std::vector<std::tuple<double, int, int>>,
                      std::greater<>>
      running_;
  std::vector<double> finished_at_;
  double now_ = 0, busy_ = 0;
  int begun_ = 0, decoding_ = 0;
};

}  // namespace

SimulatedRun simulate_groups(const std::vector<IterationTask>& iteration,
                             const SimulationOptions& options) {
  return Simulation(iteration, options).run();
}

}  // namespace omni
