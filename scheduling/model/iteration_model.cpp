#include "scheduling/model/iteration_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/log.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/task_times.hpp"
#include "scheduling/model/group_simulation.hpp"

namespace omni {
namespace {

constexpr int kCaptured = 4;  // iterations, two of each group
constexpr int kMostRounds = 5;
constexpr double kMostOverhead = 200e-6, kFitted = 0.05;  // s; of the time that was measured
constexpr double kOverheadStep = 0.1e-6;                  // s
constexpr double kJitter = 0.01;                          // of tasks' lengths in a simulation
constexpr unsigned kFewest = 3, kMost = 12;               // simulations that make a prediction
constexpr double kSure = 2e-3;  // the standard error of their mean: no more are needed

// The implementation that was run most, of every codelet and layer.
using Choices = std::map<std::tuple<std::string, int, bool>, std::string>;
Choices choices_of(std::vector<TaskTime> times) {
  std::ranges::stable_sort(times, std::greater(), &TaskTime::tasks);
  Choices choices;
  for (const TaskTime& time : times)
    choices.emplace(std::tuple(time.codelet, time.layer, time.on_gpu), time.implementation);
  return choices;
}

}  // namespace

Result<IterationModel> IterationModel::measure(const Net& net, Workers workers, const Train& train,
                                               int warm_up, int iterations) {
  OMNI_CHECK(train(warm_up));
  // While the models still try implementations, iterations take longer than they will.
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
  // What a task costs besides the kernel: as much as makes the prediction for this run true.
  const GroupLayout two = spread_groups(2, workers);
  double low = 0, high = kMostOverhead;
  while (high - low > kOverheadStep) {
    const double middle = (low + high) / 2;
    (model.predict(two, true, middle) < model.measured_ ? low : high) = middle;
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

double IterationModel::predict(const GroupLayout& layout, bool in_turn, double overhead) const {
  double mean = 0, squares = 0;  // of differences from the mean
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
    if (count == kMost || std::sqrt(squares / (count * (count - 1))) < kSure * mean) return mean;
  }
}

}  // namespace omni
