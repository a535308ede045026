// omni-run time: where one training iteration's time goes, by layer, which implementations ran, and
// what the others would have cost.
#include <algorithm>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/commands/slice_sizes.hpp"
#include "apps/omni-run/commands/time_report.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/tracing.hpp"
#include "apps/omni-run/training/timed_training.hpp"
#include "codelets/dense/peaks.hpp"
#include "runtime/tasks/implementation_policy.hpp"
#include "scheduling/stopwatch.hpp"

namespace omni {
namespace {

// Of one worker, while all of its kind are at work.
WorkerPeaks measure_peaks(const Session& session, const MachineArguments& machine) {
  const int workers = cpu_workers(session);
  WorkerPeaks peaks;
  if (workers > 0) peaks.cpu = measure_cpu_gemm(session, workers) / workers;
#ifdef OMNI_CUDA
  const std::vector<int>& gpus = machine.session.gpus;
  if (!gpus.empty())
    peaks.gpu =
        measure_gpu_gemm(gpus, machine.session.precision) / static_cast<double>(gpus.size());
#else
  (void)machine;
#endif
  return peaks;
}

}  // namespace

Status time_command(const TimeArguments& arguments) {
  if (arguments.slices) return time_slices(arguments);
  NetArguments net_arguments = TimedTraining::without_learning(arguments.net);
  OMNI_TRY(const NetSpec spec, read_net(net_arguments));
  OMNI_CHECK(use_timed_slice(spec, arguments.machine, net_arguments));
  OMNI_TRY(auto opened, build_net(spec, net_arguments, true));
  OMNI_TRY(const DatasetPair data, open_data({.source = "synthetic"}, *opened));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  OMNI_TRY(const auto training,
           TimedTraining::make(ComputeGroups(std::move(opened)), *data.train, arguments.machine));
  Net* const net = &training->groups().net();
  const WorkerPeaks peaks = measure_peaks(session, arguments.machine);

  // The models try every implementation some ten times before they are trusted.
  OMNI_CHECK(training->seconds(arguments.warm_up, Asynchrony::reproducible));
  std::vector<TaskTime> times;
  std::vector<double> losses_at;
  double wall = 0;
  const auto measure = [&]() -> Status {
    Stopwatch watch;
    watch.start();
    OMNI_TRY(wall,
             training->seconds(arguments.iterations, Asynchrony::reproducible,
                               [&](const StepReport&) { losses_at.push_back(watch.seconds()); }));
    return {};
  };
  // A GPU pays for the marks between its kernels, so iterations of their own tell of its layers.
  const bool apart = gpus_compute();
  if (apart) OMNI_CHECK(measure());
  const bool few = apart && arguments.trace.empty();
  const int timed = few ? std::min(arguments.iterations, 20) : arguments.iterations;
  {
    OMNI_TRY(const auto recorder, start_trace(arguments.trace, session, *net));
    task_times::start();
    if (apart)
      OMNI_CHECK(training->seconds(timed, Asynchrony::reproducible));
    else
      OMNI_CHECK(measure());
    times = task_times::finish();
  }
  // Asking the models takes time of its own: one more iteration, which is not timed.
  expected_times::start();
  OMNI_CHECK(training->seconds(1, Asynchrony::reproducible));
  TimeReport report = TimeReport::make(times, expected_times::finish(), peaks, timed);
  report.seconds = wall / arguments.iterations;
  for (std::size_t i = 1; i < losses_at.size(); ++i)
    report.periods.push_back(losses_at[i] - losses_at[i - 1]);
  if (arguments.common.json)
    report.print_json(*net);
  else
    report.print_table(*net);
  return {};
}

}  // namespace omni
