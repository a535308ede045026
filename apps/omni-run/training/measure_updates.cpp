#include "apps/omni-run/training/measure_updates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/group_options.hpp"
#include "runtime/log.hpp"
#include "scheduling/guard/guarded_training.hpp"
#include "scheduling/model/group_plan.hpp"
#include "scheduling/optimizer/training_snapshot.hpp"
#include "scheduling/training_checkpoint.hpp"

namespace omni {
namespace {

constexpr std::uint64_t kLongest = 4;  // times the iterations of one group

// The losses of mini-batches in their order, up to so many or until the target is reached, as
// --groups trains by default. A training that diverges has those before.
Result<std::vector<double>> losses_of(ComputeGroups& groups, DataFeed& feed,
                                      const TrainingState& state, std::uint64_t iterations,
                                      Compensation compensation, std::size_t window,
                                      double target) {
  std::vector<double> losses(iterations);
  std::uint64_t done = 0;
  bool reached = false;
  GuardedTraining trainer(
      groups, feed, nullptr, state,
      {.until = iterations,
       .trial = true,
       .strategy = async(Asynchrony::reproducible, compensation)},
      {.on_iteration =
           [&](const StepReport& at) {
             losses[at.began] = at.loss;
             ++done;
             if (done % window == 0)
               reached = first_below(std::span(losses.data(), done), window, target).has_value();
           },
       .is_enough = [&] { return reached; }},
      true);
  const Status trained = trainer.run();
  if (!trained && !reached && trained.error().kind != ErrorKind::diverged) return trained.error();
  losses.resize(done);
  return losses;
}

}  // namespace

UpdateRatios update_ratios_of(const NetSpec& spec, int batch, const std::string& data,
                              const MachineArguments& machine) {
  const std::filesystem::path models = machine.session.models.empty()
                                           ? default_model_folder()
                                           : std::filesystem::path(machine.session.models);
  return UpdateRatios(models,
                      fmt::format("{} {} batch {} guarded", layers_hash(spec), data, batch));
}

Result<std::vector<UpdateRatio>> measure_updates(const PlanArguments& arguments,
                                                 const Session& session, const Dataset& images) {
  OMNI_TRY(const NetSpec spec, read_net(arguments.net));
  const std::vector<int> numbers = planned_groups(arguments.most_groups);
  OMNI_TRY(ComputeGroups groups,
           open_groups(spec, arguments.net,
                       {.count = numbers.back(), .fully_connected = arguments.fully_connected}));
  const Workers workers = workers_of(session);
  DataFeed feed(images,
                feed_options(groups.net(), arguments.data.seed, true, Trainer::slots(groups)));
  const std::size_t snapshots =
      TrainingSnapshot::bytes(groups) +
      GuardedTraining::kSnapshots * TrainingSnapshot::bytes(groups, false);
  MemoryDemand demand = training_demand(groups, feed, nullptr, groups.net().working_bytes());
  demand.in_main_memory_only = snapshots;
  OMNI_CHECK(MemoryForecast(groups.net(), std::move(demand), arguments.machine).require());
  OMNI_CHECK(groups.allocate());
  OMNI_CHECK(feed.allocate());
  groups.net().initialise(arguments.data.seed);
  groups.use(1, workers);
  groups.refresh_replicas();

  const std::size_t batch = groups.net().options().batch;
  const std::size_t window = std::clamp<std::size_t>(2048 / batch, 32, 256);
  const std::uint64_t length = std::max<std::uint64_t>(arguments.update_iterations, 2 * window);
  TrainingState state{.seed = arguments.data.seed};
  TrainingSnapshot start;
  start.take(groups, state);
  OMNI_TRY(const std::vector<double> one,
           losses_of(groups, feed, state, length, arguments.compensation, window, -INFINITY));
  if (one.size() < length)
    return Error{ErrorKind::diverged, "--measure-updates",
                 fmt::format("one group diverges after {} iterations", one.size()),
                 "lower --learning-rate"};
  const std::span<const double> last = std::span(one).last(window);
  const double target =
      std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(window);
  log::info("updates: one group reaches a loss of {:.4g} in {} iterations", target, one.size());
  std::vector<UpdateRatio> counts{{.groups = 1}};
  for (const int count : numbers) {
    if (count == 1) continue;
    groups.use(count, workers);
    start.restore(groups);
    OMNI_TRY(const std::vector<double> losses,
             losses_of(groups, feed, state, kLongest * length, arguments.compensation, window,
                       0.98 * target));
    counts.push_back(ratio_of_updates(count, one, losses, window));
    log::info("updates: {} groups need {} times as many", count,
              std::isfinite(counts.back().ratio)
                  ? fmt::format("{:.2f} +- {:.2f}", counts.back().ratio, counts.back().error)
                  : fmt::format("more than {}", kLongest));
  }
  return counts;
}

}  // namespace omni
