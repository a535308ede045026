#include "tests/simgrid/training.hpp"

#include <starpu.h>

#include <chrono>
#include <string>

#include "runtime/data/open.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/forecast/steady_seconds.hpp"
#include "scheduling/training/group_run.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni::test {

Workers SimulatedTraining::workers() {
  return {static_cast<int>(starpu_worker_get_count()),
          static_cast<int>(starpu_worker_get_count_by_type(STARPU_CUDA_WORKER))};
}

Result<std::unique_ptr<SimulatedTraining>> SimulatedTraining::make(const TrainableNet& spec,
                                                                   int groups, int slice) {
  OMNI_TRY(ComputeGroups made,
           ComputeGroups::make(groups, {}, [&](const Sharing& sharing, int chosen, int) {
             return Net::build(spec, {.training = true,
                                      .adam = spec.solver.adam,
                                      .slice = chosen != 0 ? chosen : slice,
                                      .sharing = sharing});
           }));
  if (groups > 1) made.assign(spread_groups(groups, workers()));
  const Net& net = made.net();
  OMNI_TRY(DatasetPair data,
           open_dataset({.source = "synthetic:1024:" + std::to_string(net.classes()),
                         .net_input = net.options().input,
                         .classes = net.classes(),
                         .seed = 1}));
  std::unique_ptr<SimulatedTraining> training(
      new SimulatedTraining(std::move(made), std::move(data), spec.solver));
  OMNI_CHECK(training->groups_.allocate());
  OMNI_CHECK(training->feed_.allocate());
  return training;
}

SimulatedTraining::SimulatedTraining(ComputeGroups groups, DatasetPair data,
                                     const SolverOptions& solver)
    : groups_(std::move(groups)),
      solver_(solver),
      data_(std::move(data)),
      feed_(*data_.train, {.augment = {},
                           .net_input = groups_.net().options().input,
                           .slices = groups_.net().slices(),
                           .slots = Trainer::slots(groups_)}) {}

Result<double> SimulatedTraining::seconds_per_iteration(int iterations, bool in_turn) {
  const auto count = static_cast<std::uint64_t>(iterations) + drained(groups_.count());
  TrainingFeed ahead(feed_, 1, 0, count * static_cast<std::uint64_t>(feed_.batch()));
  runs_.clear();
  strategy_ = async(in_turn ? Asynchrony::reproducible : Asynchrony::free)(groups_, solver_);
  for (int group = 0; group < groups_.count(); ++group)
    runs_.push_back(std::make_unique<GroupRun>(groups_, group, ahead, events_, *strategy_, true));
  begun_ = 0;
  finished_at_.clear();
  OMNI_CHECK(in_turn ? take_turns(count) : run_freely(count));
  OMNI_CHECK(wait_for_tasks());
  return steady_seconds(finished_at_, groups_.count());
}

Status SimulatedTraining::take_turns(std::uint64_t iterations) {
  const std::uint64_t most = runs_.size() + 1;
  while (finished_at_.size() < iterations) {
    GroupRun& run = *runs_[begun_ % runs_.size()];
    if (begun_ < iterations && begun_ - finished_at_.size() < most && run.may_begin()) {
      run.begin(next_batch(begun_ % runs_.size()), false);
      OMNI_CHECK(run.complete({.learning_rate = 0.01f, .momentum = {}}));
    } else {
      OMNI_TRY(const GroupEvent event, next_event());
      OMNI_CHECK(finish(event.group));
    }
  }
  return {};
}

Status SimulatedTraining::run_freely(std::uint64_t iterations) {
  const auto begin = [&](std::size_t group) {
    GroupRun& run = *runs_[group];
    if (run.may_begin() && begun_ < iterations) run.begin(next_batch(group), true);
  };
  for (std::size_t group = 0; group < runs_.size(); ++group) begin(group);
  while (finished_at_.size() < begun_) {
    OMNI_TRY(const GroupEvent event, next_event());
    const auto group = static_cast<std::size_t>(event.group);
    if (event.kind == GroupEvent::Kind::arrived) {
      OMNI_CHECK(runs_[group]->complete({.learning_rate = 0.01f, .momentum = {}}));
    } else {
      OMNI_CHECK(finish(event.group));
    }
    begin(group);
  }
  return {};
}

MiniBatch SimulatedTraining::next_batch(std::size_t group) {
  const auto count = static_cast<std::uint64_t>(feed_.batch());
  const std::uint64_t number = begun_++;
  return {
      .group = static_cast<int>(group), .number = number, .first = number * count, .count = count};
}

// Simulated time passes only while the program waits in StarPU. A task pushes its event before it
// counts as ended. So the tasks must be counted before the queue is read.
Result<GroupEvent> SimulatedTraining::next_event() {
  constexpr std::chrono::milliseconds kNoWait{-1};  // until now would take 50 us of real time
  while (true) {
    const int left = starpu_task_nsubmitted();
    if (const auto event = events_.wait(kNoWait)) return *event;
    if (left == 0)
      return Error{ErrorKind::failed, "", "all tasks have ended, but no group has finished", ""};
    starpu_task_wait_for_n_submitted(static_cast<unsigned>(left) - 1);
  }
}

Status SimulatedTraining::finish(int group) {
  GroupRun& run = *runs_[static_cast<std::size_t>(group)];
  OMNI_TRY(const GroupOutcome outcome, run.read_outcome());
  (void)run.collect(outcome);
  finished_at_.push_back(starpu_timing_now() / 1e6);
  return {};
}

}  // namespace omni::test
