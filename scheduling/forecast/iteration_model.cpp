#include "scheduling/forecast/iteration_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "codelets/dense/connected_update.hpp"
#include "codelets/elementwise/exchange.hpp"
#include "runtime/data/feed/decode_tasks.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/task_times.hpp"
#include "scheduling/forecast/group_simulation.hpp"

namespace omni {
namespace {

using Owner = IterationTask::Owner;
using Stage = IterationTask::Stage;

bool writes(const CapturedTask& task, const std::unordered_set<std::uint32_t>& data) {
  return std::ranges::any_of(task.uses, [&](const CapturedTask::Use& use) {
    return use.mode != AccessMode::read && data.contains(use.id());
  });
}

// Returns true if the data belong to a mini-batch: decoded images, labels or metrics. Each
// mini-batch under way uses another slot of them. The data have the same names in all slots.
bool of_batch(const CapturedTask::Use& use) { return use.part.tensor->name().starts_with("feed."); }

// Returns the tasks of one iteration of the first group, whose net is `net`. Their lengths are
// means by kind of worker. `captured` has iterations of several groups in turn. Data that several
// groups use are the master copies of parameters.
Result<std::vector<IterationTask>> iteration_graph(const std::vector<CapturedTask>& captured,
                                                   const std::vector<TaskTime>& times,
                                                   const MachineModel& machine, const Net& net) {
  std::unordered_map<std::uint32_t, std::set<int>> users;  // the groups that use a datum
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
    added.seconds = task.seconds;  // StarPU's predictions; measured means replace them
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
  // `own` has the tasks of the group's last captured iteration, without tasks of the data feed.
  std::vector<const CapturedTask*> own;
  for (const CapturedTask& task : captured)
    if (task.group == 0 && task.iteration == newest && !is_decoding(task.codelet))
      own.push_back(&task);
  // The tasks from `first_after` on have the stage `complete`. They begin with the merged phase, or
  // if no layers are merged, after the last task of forward.
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

  std::set<std::string> brought;  // data for which a decoding task was added
  for (const CapturedTask& task : captured)
    if (is_decoding(task.codelet) && brought.insert(task.uses.front().part.tensor->name()).second)
      add(task, Stage::decode);
  return graph;
}

constexpr int kCaptured = 4;  // iterations: two of each group
constexpr int kMostRounds = 5;
// kMostOverhead is in seconds. A relative error of the fit above kFitted causes a warning.
constexpr double kMostOverhead = 200e-6, kFitted = 0.05;
constexpr double kOverheadStep = 0.1e-6;         // s
constexpr double kJitter = 0.01;                 // largest random variation of a task, as a share
constexpr unsigned kFewest = 3, kMostRuns = 12;  // simulations per prediction
constexpr double kSure = 2e-3;  // relative standard error of the mean that ends a prediction
// A relative distance from `compared` above kFar also ends a prediction, if it exceeds kFarErrors
// standard errors.
constexpr double kFar = 0.05;
constexpr double kFarErrors = 5;

// Choices maps a codelet, layer and kind of worker to the implementation that ran most often.
using Choices = std::map<std::tuple<std::string, int, bool>, std::string>;
Choices choices_of(std::vector<TaskTime> times) {
  std::ranges::stable_sort(times, std::greater(), &TaskTime::tasks);
  Choices choices;
  for (const TaskTime& time : times)
    choices.emplace(std::tuple(time.codelet, time.layer, time.on_gpu), time.implementation);
  return choices;
}

}  // namespace

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

Result<IterationModel> IterationModel::measure(const Net& net, Workers workers, const Train& train,
                                               int warm_up, int iterations) {
  log::info("slices of {} images: {} iterations warm up the models", net.slices().sizes.front(),
            warm_up);
  OMNI_CHECK(train(warm_up));
  // The warm-up is not measured, as iterations take longer while StarPU's models still try
  // implementations. Measurements end when two in a row ran the same implementations most often.
  std::vector<TaskTime> times;
  IterationModel model;
  Choices before;
  for (int round = 0; round < kMostRounds; ++round) {
    task_times.start();
    Result<double> seconds = train(iterations);
    times = task_times.finish();
    if (!seconds) return seconds.error();
    log::info("slices of {} images, measurement {} (2 to {} are made): {:.1f} ms an iteration",
              net.slices().sizes.front(), round + 1, kMostRounds, 1e3 * *seconds);
    Choices now = choices_of(times);
    const bool settled = round > 0 && now == before;
    model.measured_ = settled ? (model.measured_ + *seconds) / 2 : *seconds;
    if (settled) break;
    before = std::move(now);
  }
  task_capture::start();
  Result<double> captured = train(kCaptured);
  const std::vector<CapturedTask> tasks = task_capture::finish();
  if (!captured) return captured.error();

  model.machine_ = MachineModel::of_session();
  OMNI_TRY(model.tasks_, iteration_graph(tasks, times, model.machine_, net));
  // The overhead of a task is chosen so that the prediction for two groups equals their measured
  // time.
  const GroupLayout two = spread_groups(2, workers);
  double low = 0, high = kMostOverhead;
  while (high - low > kOverheadStep) {
    const double middle = (low + high) / 2;
    const double seconds = model.predict(two, true, middle, model.measured_);
    (seconds < model.measured_ ? low : high) = middle;
    if (std::abs(seconds / model.measured_ - 1) < kSure) low = high = middle;
  }
  model.task_overhead_ = low;
  const double off = model.predict(two, true, low) / model.measured_ - 1;
  if (std::abs(off) > kFitted)
    log::warn(
        "the predicted time of two groups is {:.0f} % too {}: other predictions may be as wrong "
        "(use as many workers as cores, and stop other programs)",
        100 * std::abs(off), off > 0 ? "long" : "short");
  return model;
}

void IterationModel::set_cores(int count) {
  std::vector<int>& workers = machine_.kinds.front().workers;
  workers.resize(static_cast<std::size_t>(count));
  std::iota(workers.begin(), workers.end(), 0);
}

double IterationModel::predict(const GroupLayout& layout, bool in_turn, double overhead,
                               double compared) const {
  double mean = 0, squares = 0;  // the mean, and the sum of squared differences from it
  for (unsigned count = 1;; ++count) {
    const double seconds =
        simulate_groups(tasks_, {.machine = machine_,
                                 .layout = layout,
                                 .in_turn = in_turn,
                                 .iterations = 60 + 10 * static_cast<int>(layout.size()),
                                 .task_overhead = overhead,
                                 .jitter = kJitter,
                                 .seed = count});
    const double before = mean;
    mean += (seconds - before) / count;
    squares += (seconds - before) * (seconds - mean);
    if (count < kFewest) continue;
    const double error = std::sqrt(squares / (count * (count - 1)));
    const double apart = std::abs(mean - compared);
    if (count == kMostRuns || error < kSure * mean) return mean;
    if (compared > 0 && apart > kFar * mean && apart > kFarErrors * error) return mean;
  }
}

}  // namespace omni
