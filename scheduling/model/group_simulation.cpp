#include "scheduling/model/group_simulation.hpp"

#include "scheduling/groups/group_run.hpp"
#include "scheduling/groups/steady_rate.hpp"
#include "scheduling/model/simulated_workers.hpp"

namespace omni {
namespace {

using Stage = IterationTask::Stage;

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
  static constexpr int kUnderWay = GroupRun::kUnderWay;
  struct Group {
    int begun = 0, completed = 0, collected = 0;
    int gates_left[kUnderWay] = {}, updates_left[kUnderWay] = {};
    int numbers[kUnderWay] = {};  // of its iterations, of which one is in each place
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
    const int place = group.begun++ % kUnderWay;
    const int number = begun_++;
    group.numbers[place] = number;
    group.gates_left[place] = group.updates_left[place] = 0;
    for (const IterationTask& task : iteration_) {
      group.gates_left[place] += task.gate ? 1 : 0;
      group.updates_left[place] += task.update ? 1 : 0;
    }
    for (; decoding_ <= number + TrainingFeed::kPrefetched; ++decoding_)
      submit(Stage::decode, kNoGroup, decoding_);
    submit(Stage::begin, number_of_group, number);
  }

  void complete(int number_of_group) {
    Group& group = group_of(number_of_group);
    const int place = group.completed++ % kUnderWay;
    submit(Stage::complete, number_of_group, group.numbers[place]);
  }

  void submit(Stage stage, int group, int iteration) {
    for (const IterationTask& task : iteration_)
      if (task.stage == stage) workers_.submit(task, group, iteration);
  }

  void done(int id) {
    const SimulatedTask& task = workers_.task(id);
    if (task.group == kNoGroup) return;
    Group& group = group_of(task.group);
    const int place = group.numbers[0] == task.iteration ? 0 : 1;
    if (task.task->gate && --group.gates_left[place] == 0 && !options_.in_turn) {
      complete(task.group);
      begin(task.group);
    }
    if (task.task->update && --group.updates_left[place] == 0) {
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
  std::vector<double> finished_at_;  // iterations
  int begun_ = 0, collected_ = 0, decoding_ = 0;
};

}  // namespace

double simulate_groups(const std::vector<IterationTask>& iteration,
                       const SimulationOptions& options) {
  return Simulation(iteration, options).run();
}

}  // namespace omni
