#include "scheduling/model/iteration_graph.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "codelets/dense/connected_update.hpp"
#include "codelets/elementwise/exchange.hpp"
#include "runtime/data/data_feed.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

using Owner = IterationTask::Owner;
using Stage = IterationTask::Stage;

bool writes(const CapturedTask& task, const std::unordered_set<std::uint32_t>& data) {
  return std::ranges::any_of(task.uses, [&](const CapturedTask::Use& use) {
    return use.mode != AccessMode::read && data.contains(use.id());
  });
}

// The mini-batch's own: decoded images, labels, metrics. They lie in another slot every time; the
// name is what the slots have in common.
bool of_batch(const CapturedTask::Use& use) { return use.part.tensor->name().starts_with("feed."); }

}  // namespace

Result<std::vector<IterationTask>> iteration_graph(const std::vector<CapturedTask>& captured,
                                                   const std::vector<TaskTime>& times,
                                                   const MachineModel& machine, const Net& net) {
  std::unordered_map<std::uint32_t, std::set<int>> users;  // of a datum: groups
  std::int64_t newest = -1;
  for (const CapturedTask& task : captured) {
    for (const CapturedTask::Use& use : task.uses) users[use.id()].insert(task.group);
    if (task.group == 0) newest = std::max(newest, task.iteration);
  }
  if (newest < 0)
    return Error{ErrorKind::failed, "", "no iteration of the first group was captured", ""};
  std::unordered_set<std::uint32_t> gate;
  for (const Tensor* tensor : net.replicated_output().value) gate.insert(tensor->id());

  struct Sum {
    double tasks = 0, seconds = 0;
  };
  std::map<std::tuple<std::string, int, bool>, Sum> sums;  // by codelet, layer and kind of worker
  for (const TaskTime& time : times) {
    Sum& sum = sums[{time.codelet, time.layer, time.on_gpu}];
    sum.tasks += static_cast<double>(time.tasks);
    sum.seconds += time.seconds;
  }
  std::map<std::string, std::uintptr_t> codelets;
  std::vector<IterationTask> graph;
  std::map<std::string, std::uint32_t> batch_data;
  const auto add = [&](const CapturedTask& task, Stage stage) {
    IterationTask& added = graph.emplace_back();
    added.codelet = codelets.try_emplace(task.codelet, codelets.size()).first->second;
    added.seconds = task.seconds;  // as StarPU's models expect; where some ran, their mean
    for (std::size_t kind = 0; kind < added.seconds.size(); ++kind) {
      const auto found = sums.find({task.codelet, task.layer, machine.kinds[kind].gpu});
      if (found != sums.end()) added.seconds[kind] = found->second.seconds / found->second.tasks;
    }
    added.priority = task.priority;
    added.stage = stage;
    added.any_worker = task.any_worker || stage == Stage::decode;
    added.gate = stage == Stage::begin && writes(task, gate);
    added.update =
        task.codelet == exchange.name() || task.codelet == connected_backward_update.name();
    for (const CapturedTask::Use& use : task.uses) {
      if (of_batch(use)) {
        const auto number = static_cast<std::uint32_t>(batch_data.size());
        added.uses.push_back({batch_data.try_emplace(use.part.tensor->name(), number).first->second,
                              use.mode, Owner::batch, use.bytes()});
        continue;
      }
      const bool shared = users[use.id()].size() > 1;
      added.uses.push_back({use.id(), use.mode, shared ? Owner::all : Owner::group, use.bytes()});
    }
  };
  // The group's last iteration that was captured whole, and what brings one mini-batch.
  std::vector<const CapturedTask*> own;
  for (const CapturedTask& task : captured)
    if (task.group == 0 && task.iteration == newest && !DataFeed::submits(task.codelet))
      own.push_back(&task);
  // With nothing merged, the gate is the end of forward.
  const auto merged =
      std::ranges::find_if(own, [](const CapturedTask* task) { return task->any_worker; });
  auto first_after = merged;
  if (merged == own.end()) {
    const auto last = std::find_if(own.rbegin(), own.rend(),
                                   [&](const CapturedTask* task) { return writes(*task, gate); });
    first_after = last.base();
  }
  for (auto task = own.begin(); task != own.end(); ++task)
    add(**task, task < first_after ? Stage::begin : Stage::complete);

  if (std::ranges::none_of(graph, &IterationTask::update))
    return Error{ErrorKind::usage, net.name(), "has nothing to learn", "add a layer with weights"};

  std::set<std::string> brought;  // what the first access writes
  for (const CapturedTask& task : captured)
    if (DataFeed::submits(task.codelet) &&
        brought.insert(task.uses.front().part.tensor->name()).second)
      add(task, Stage::decode);
  return graph;
}

IterationWork work_of(const std::vector<IterationTask>& iteration) {
  IterationWork work;
  for (const IterationTask& task : iteration) {
    if (task.stage == IterationTask::Stage::decode) continue;
    const bool merged = task.any_worker && task.stage == IterationTask::Stage::complete;
    (merged        ? work.merged
     : task.update ? work.exchanges
                   : work.groups) += std::ranges::min(task.seconds);
  }
  return work;
}

}  // namespace omni
