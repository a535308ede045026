#include "apps/omni-run/timed_training.hpp"

#include <algorithm>
#include <vector>

#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/setup.hpp"
#include "scheduling/groups/steady_rate.hpp"
#include "scheduling/stopwatch.hpp"

namespace omni {
namespace {

constexpr std::size_t kHeldBatches = 2;

}  // namespace

NetArguments TimedTraining::without_learning(NetArguments net) {
  net.settings.insert(net.settings.begin(), {"learning_rate=0", "policy=constant"});
  return net;
}

Result<std::unique_ptr<TimedTraining>> TimedTraining::make(ComputeGroups groups,
                                                           const Dataset& images,
                                                           const MachineArguments& machine) {
  const auto batch = static_cast<std::size_t>(groups.net().slices().images());
  OMNI_TRY(HeldImages held, HeldImages::hold(images, kHeldBatches * batch));
  std::unique_ptr<TimedTraining> training(new TimedTraining(std::move(groups), std::move(held)));
  Net& net = training->groups_.net();
  const MemoryDemand demand =
      training_demand(training->groups_, training->feed_, nullptr, working_on_gpus(net));
  OMNI_CHECK(MemoryForecast(net, demand, machine).require());
  OMNI_CHECK(training->groups_.allocate());
  OMNI_CHECK(training->feed_.allocate());
  net.initialise(1);
  training->groups_.refresh_replicas();
  return training;
}

TimedTraining::TimedTraining(ComputeGroups groups, HeldImages images)
    : groups_(std::move(groups)),
      images_(std::move(images)),
      feed_(images_, feed_options(groups_.net(), 1, true, Trainer::slots(groups_))) {}

Result<double> TimedTraining::seconds(int iterations, Asynchrony asynchrony,
                                      std::function<void(const StepReport&)> on_iteration) {
  Stopwatch watch;
  watch.start();
  Trainer trainer(groups_, feed_, nullptr, {.seed = 1},
                  {.iterations = static_cast<std::uint64_t>(iterations), .strategy = async(asynchrony)},
                  {.on_iteration = std::move(on_iteration),
                   .on_step = {},
                   .on_evaluation = {},
                   .save_checkpoint = {}});
  OMNI_CHECK(trainer.run());
  return watch.seconds();
}

Result<double> TimedTraining::seconds_per_iteration(int iterations, Asynchrony asynchrony) {
  const int count = groups_.count();
  std::vector<double> ends;
  OMNI_CHECK(seconds(std::max(iterations, 2) + static_cast<int>(drained(count)), asynchrony,
                     [&](const StepReport& report) { ends.push_back(report.seconds); }));
  return steady_seconds(ends, count);
}

}  // namespace omni
