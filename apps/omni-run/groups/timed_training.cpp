#include "apps/omni-run/groups/timed_training.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/setup.hpp"
#include "scheduling/forecast/steady_seconds.hpp"
#include "scheduling/training/stopwatch.hpp"

namespace omni {
namespace {

constexpr std::size_t kHeldBatches = 2;
// The models need ten runs of each of up to seven implementations; a slice is one run of each task.
constexpr int kSlicesToSettle = 70;
constexpr double kLeastSeconds = 0.5;  // shortest run whose mean is precise enough

// Decodes the first images once and keeps them in memory. So timings include the conversion of
// bytes to floats, but not reading or decoding files. Labels are bytes, so others stand for those
// from 256.
Result<MemoryDataset> hold(const Dataset& source, std::size_t most) {
  ImageSet set{.extent = source.extent(), .classes = source.classes()};
  Image image;
  for (std::size_t index = 0; index < std::min(most, source.size()); ++index) {
    OMNI_CHECK(source.read(index, {}, image));
    set.pixels.insert(set.pixels.end(), image.pixels.begin(), image.pixels.end());
    set.pixels.resize((index + 1) * set.extent.count());  // of vectors any values do
    set.labels.push_back(static_cast<std::uint8_t>(std::max(source.label(index), 0) %
                                                   std::clamp(set.classes, 1, 256)));
  }
  return MemoryDataset(std::move(set));
}

// Returns the options for samples that hold() has read: those of all inputs are one vector, and
// computed images have another size than the mean of the training's.
AugmentOptions as_held(AugmentOptions augment) {
  augment.parts.clear();
  augment.mean_image = {};
  return augment;
}

}  // namespace

Result<std::unique_ptr<TimedTraining>> TimedTraining::make(ComputeGroups groups,
                                                           const TrainableNet& described,
                                                           const Dataset& images,
                                                           const MachineArguments& machine) {
  const std::size_t batch = groups.net().slices().images();
  OMNI_TRY(MemoryDataset held, hold(images, kHeldBatches * batch));
  std::unique_ptr<TimedTraining> training(
      new TimedTraining(std::move(groups), described, std::move(held)));
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

TimedTraining::TimedTraining(ComputeGroups groups, const TrainableNet& net, MemoryDataset images)
    : groups_(std::move(groups)),
      solver_(net.solver),
      images_(std::move(images)),
      feed_(images_,
            feed_options(groups_.net(), as_held(net.augment), 1, true, Trainer::slots(groups_))) {}

Result<double> TimedTraining::seconds(int iterations, Asynchrony asynchrony,
                                      const std::function<void(const StepReport&)>& on_iteration) {
  Stopwatch time;
  int done = 0;
  Trainer trainer(groups_, feed_, nullptr, {.seed = 1},
                  {.iterations = static_cast<std::uint64_t>(iterations),
                   .solver = solver_,
                   .strategy = async(asynchrony)},
                  {.on_iteration = [&](const StepReport& report) {
                    if (on_iteration) on_iteration(report);
                    if (watcher_) watcher_(++done, iterations);
                  }});
  OMNI_CHECK(trainer.run());
  return time.seconds();
}

Result<double> TimedTraining::mean_seconds() {
  const int slices = groups_.net().slices().count();
  OMNI_CHECK(seconds((kSlicesToSettle + slices - 1) / slices, Asynchrony::reproducible));
  OMNI_TRY(const double first, seconds(2, Asynchrony::reproducible));
  const int iterations = static_cast<int>(std::ceil(2 * kLeastSeconds / first));
  // The whole run is divided by its iterations: their overlap at both ends matters in short runs.
  OMNI_TRY(const double whole, seconds(iterations, Asynchrony::reproducible));
  return whole / iterations;
}

Result<double> TimedTraining::seconds_per_iteration(int iterations, Asynchrony asynchrony) {
  const int count = groups_.count();
  std::vector<double> ends;
  OMNI_CHECK(seconds(std::max(iterations, 2) + static_cast<int>(drained(count)), asynchrony,
                     [&](const StepReport& report) { ends.push_back(report.seconds); }));
  return steady_seconds(ends, count);
}

}  // namespace omni
