#include "apps/omni-run/training/measure_updates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/group_options.hpp"
#include "runtime/log.hpp"
#include "scheduling/model/group_plan.hpp"
#include "scheduling/optimizer/training_snapshot.hpp"
#include "scheduling/trainer.hpp"
#include "scheduling/training_checkpoint.hpp"

namespace omni {
namespace {

// Old gradients bear smaller steps only: the rate that needs the fewest updates counts.
constexpr double kRateShares[] = {1, 0.32, 0.1};
constexpr std::uint64_t kLongest = 4;  // times the iterations of one group

struct ForkedTraining {
  ComputeGroups groups;
  DataFeed feed;
  Workers workers;

  ForkedTraining(ComputeGroups made, const Dataset& images, std::uint64_t seed, Workers all)
      : groups(std::move(made)),
        feed(images, feed_options(groups.net(), seed, true, Trainer::slots(groups))),
        workers(all) {}
};

// The losses of mini-batches in their order, up to so many or until the target is reached. A
// training that diverges has those before.
Result<std::vector<double>> losses_of(ForkedTraining& training, const TrainingState& state,
                                      std::uint64_t iterations, Compensation compensation,
                                      std::size_t window, double target,
                                      TrainingState* end = nullptr) {
  std::vector<double> losses(iterations);
  std::uint64_t done = 0;
  Trainer trainer(training.groups, training.feed, nullptr, state,
                  {.until = state.iteration + iterations,
                   .trial = true,
                   .strategy = async(Asynchrony::reproducible, compensation)},
                  {.on_iteration =
                       [&](const StepReport& at) {
                         losses[at.began - state.iteration] = at.loss;
                         ++done;
                       },
                   .is_lost =
                       [&](double) {
                         const std::span<const double> last(losses.data(), done);
                         return done % window == 0 && first_below(last, window, target).has_value();
                       },
                   .on_step = {},
                   .on_evaluation = {},
                   .save_checkpoint = {}});
  const Status trained = trainer.run();
  if (!trained && trained.error().kind != ErrorKind::diverged) return trained.error();
  if (end != nullptr) *end = trainer.state();
  losses.resize(done);
  if (end != nullptr && !trained)
    return Error{ErrorKind::diverged, "--measure-updates", trained.error().what,
                 "lower --learning-rate"};
  return losses;
}

}  // namespace

UpdateRatios update_ratios_of(const NetSpec& spec, int batch, const std::string& data,
                              const MachineArguments& machine) {
  const std::filesystem::path models = machine.session.models.empty()
                                           ? default_model_folder()
                                           : std::filesystem::path(machine.session.models);
  return UpdateRatios(models, fmt::format("{} {} batch {}", layers_hash(spec), data, batch));
}

Result<std::vector<UpdateRatio>> measure_updates(const PlanArguments& arguments,
                                                 const Session& session, const Dataset& images) {
  OMNI_TRY(const NetSpec spec, read_net(arguments.net));
  const std::vector<int> numbers = planned_groups(arguments.most_groups);
  OMNI_TRY(ComputeGroups made,
           open_groups(spec, arguments.net,
                       {.count = numbers.back(), .fully_connected = arguments.fully_connected}));
  const Workers workers = workers_of(session);
  ForkedTraining training(std::move(made), images, arguments.data.seed, workers);
  ComputeGroups& groups = training.groups;
  const std::size_t snapshot = TrainingSnapshot::bytes(groups);
  MemoryDemand demand =
      training_demand(groups, training.feed, nullptr, groups.net().working_bytes());
  demand.in_main_memory_only = snapshot;
  OMNI_CHECK(MemoryForecast(groups.net(), std::move(demand), arguments.machine).require());
  OMNI_CHECK(groups.allocate());
  OMNI_CHECK(training.feed.allocate());
  groups.net().initialise(arguments.data.seed);
  groups.use(1, workers);
  groups.refresh_replicas();

  const auto batch = static_cast<std::size_t>(groups.net().options().batch);
  const std::size_t window = std::clamp<std::size_t>(2048 / batch, 32, 256);
  const std::uint64_t length = std::max<std::uint64_t>(arguments.update_iterations, 2 * window);
  const SolverOptions& solver = groups.net().options().solver;
  const auto tuning_with = [&](double share) {
    return Tuning{.momentum = static_cast<double>(solver.momentum),
                  .learning_rate = share * static_cast<double>(solver.learning_rate)};
  };
  // A synchronous cold start, then the same way for all.
  TrainingState state{.seed = arguments.data.seed};
  OMNI_CHECK(
      losses_of(training, state, length / 2, arguments.compensation, window, -INFINITY, &state));
  TrainingSnapshot start;
  start.take(groups, state);
  TrainingState ignored;
  OMNI_TRY(const std::vector<double> one,
           losses_of(training, state, length, arguments.compensation, window, -INFINITY, &ignored));
  const std::span<const double> last = std::span(one).last(window);
  double target = 0;
  for (const double loss : last) target += loss / static_cast<double>(window);
  log::info(
      "updates: one group reaches a loss of {:.4g} in {} iterations, behind a cold start of {}",
      target, one.size(), state.iteration);
  std::vector<UpdateRatio> counts{{.groups = 1}};
  for (const int count : numbers) {
    if (count == 1) continue;
    UpdateRatio best{.groups = count, .ratio = INFINITY};
    for (const double share : kRateShares) {
      groups.use(count, workers);
      start.restore(groups);
      state.tuning = tuning_with(share);
      OMNI_TRY(const std::vector<double> losses,
               losses_of(training, state, kLongest * length, arguments.compensation, window,
                         0.98 * target));
      UpdateRatio measured = ratio_of_updates(count, one, losses, window);
      measured.rate_share = share;
      if (measured.ratio < best.ratio) best = measured;
      if (measured.ratio > 1 && std::isfinite(best.ratio) && measured.ratio > best.ratio) break;
    }
    log::info("updates: {} groups need {} times as many{}", count,
              std::isfinite(best.ratio) ? fmt::format("{:.2f} +- {:.2f}", best.ratio, best.error)
                                        : fmt::format("more than {}", kLongest),
              best.rate_share < 1 ? fmt::format(", with {:.2g} of the rate", best.rate_share) : "");
    counts.push_back(best);
  }
  return counts;
}

}  // namespace omni
