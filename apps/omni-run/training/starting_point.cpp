#include "apps/omni-run/training/starting_point.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/rank_comparison.hpp"
#include "apps/omni-run/training/training_length.hpp"
#include "layers/formats/parameters.hpp"
#include "runtime/log.hpp"

namespace omni {
namespace {

// Rounds the position in the data down to whole passes, so after smaller mini-batches some samples
// may be used again. The state of a virtual clock of another machine is dropped.
void align(TrainingState& state, const TrainInputs& inputs, std::uint64_t batch) {
  const std::uint64_t unit =
      inputs.shape.images_per_pass.empty() ? batch : std::ranges::min(inputs.shape.images_per_pass);
  if (state.samples % unit != 0) {
    log::info("continues at sample {} instead of {}: mini-batches are multiples of {}",
              state.samples - state.samples % unit, state.samples, unit);
    state.samples -= state.samples % unit;
  }
  if (!inputs.machine || !state.arrivals || state.arrivals->machine == inputs.machine->name) return;
  log::warn("the checkpoint's virtual clock is of another machine: the clock starts at 0");
  state.arrivals.reset();
  state.simulated_before = 0;
}

// Returns the state of the checkpoint. With --other-data, it leaves out damaged images and what
// pilots know of the data.
Result<TrainingState> restore(const TrainInputs& inputs, Training& training) {
  const StrategyChoice& strategy = inputs.strategy;
  ComputeGroups& groups = training.groups();
  OMNI_TRY(const int saved, saved_groups(*inputs.checkpoint));
  if (ranks::several() && inputs.arguments.groups.cold_start > 0 && saved == 1)
    OMNI_CHECK(training.use_groups(1));
  if (inputs.arguments.groups.automatic || strategy.grows) {
    OMNI_CHECK(training.use_groups(std::clamp(saved, strategy.type->least_groups, groups.most())));
  }
  OMNI_TRY(TrainingState state, restore_training(groups, *inputs.checkpoint, inputs.identity.layers,
                                                 strategy.state_name()));
  if (inputs.arguments.other_data) {
    state.damaged.clear();
    std::erase_if(state.pilots, [](const auto& of) {
      const PilotType* type = find_pilot(of.first);
      return type == nullptr || !type->outlasts_data;
    });
    state.kept.clear();
  }
  return state;
}

Result<TrainingState> resumed(const TrainInputs& inputs, Training& training) {
  const std::string path = inputs.checkpoint->path.string();
  const auto batch = static_cast<std::uint64_t>(training.groups().net().options().batch);
  OMNI_TRY(TrainingState state, restore(inputs, training));
  const auto steers = [&](std::string_view name) {
    return std::ranges::any_of(training.pilots(),
                               [&](const auto& each) { return each->name() == name; });
  };
  for (const auto& [name, numbers] : state.pilots)
    if (const PilotType* type = find_pilot(name); type && !steers(name) && !type->left_out.empty())
      log::warn("{}: {}", path, type->left_out);
  std::erase_if(state.kept, [&](const auto& of) { return !steers(of.first); });
  align(state, inputs, batch);
  const bool counts_iterations = std::ranges::any_of(pilot_types(), [&](const PilotType& type) {
    return type.counts_iterations && steers(type.name);
  });
  if (counts_iterations && state.samples != state.iteration * batch)
    return Error{ErrorKind::usage, path,
                 fmt::format("its {} iterations took mini-batches of other sizes than {}",
                             state.iteration, batch),
                 "resume with the strategy of before; or with --guard off, without --auto, "
                 "--groups auto and --cold-start"};
  log::info("resumed {} at iteration {}", path, state.iteration);
  warn_about_new_length(inputs.spec, saved_length(*inputs.checkpoint), inputs.iterations,
                        state.iteration);
  return state;
}

}  // namespace

Result<TrainingState> starting_point(const TrainInputs& inputs, Training& training) {
  training.groups().net().initialise(inputs.seed);
  if (inputs.checkpoint) return resumed(inputs, training);
  Net& net = training.groups().net();
  TrainingState state{.seed = inputs.seed};
  if (const std::string& file = inputs.arguments.snapshot; !file.empty()) {
    OMNI_TRY(const CaffeSnapshot snapshot, load_caffe_snapshot(net, file));
    OMNI_CHECK(load_parameters(net, snapshot.parameters));
    state.iteration = snapshot.iteration;
    state.samples = snapshot.iteration * static_cast<std::uint64_t>(net.options().batch);
    OMNI_CHECK(compare_parameters(net, "--snapshot"));
    log::info("{}: goes on at iteration {}", file, state.iteration);
  }
  if (const std::string& file = inputs.arguments.weights; !file.empty()) {
    OMNI_CHECK(load_parameters(net, file));
    OMNI_CHECK(compare_parameters(net, "--weights"));
  }
  training.groups().refresh_replicas();
  state.owes_evaluation = inputs.spec.tests_first && training.test() != nullptr &&
                          state.iteration % *inputs.arguments.test_every == 0;
  return state;
}

}  // namespace omni
