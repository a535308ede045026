#include "apps/omni-run/training/train_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/ensemble/shared_trainings.hpp"
#include "apps/omni-run/groups/rank_speeds.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/parameter_output.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "apps/omni-run/training/run_folder.hpp"
#include "apps/omni-run/training/training_length.hpp"
#include "layers/formats/parameters.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/data/damaged_images.hpp"
#include "runtime/data/data_check.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/memory/memory_limits.hpp"
#include "runtime/slurm_job.hpp"
#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/forecast/machine/machine_file.hpp"
#include "scheduling/training/metrics_log.hpp"

namespace omni {

Status TrainInputs::open_nets() {
  arguments.net.endless = arguments.epochs.has_value();
  OMNI_TRY(spec, read_net(arguments.net));
  if (arguments.data.source.empty()) arguments.data.source = spec.data;
  if (!arguments.data.seed) arguments.data.seed = spec.seed;
  if (!arguments.display) arguments.display = spec.display;
  spec.tests_first = spec.tests_first && !arguments.test_every;
  const bool needs_tests = std::ranges::any_of(pilot_types(), [&](const PilotType& type) {
    return type.needs_tests && arguments.pilots.first_given(type.options) != nullptr;
  });
  // Pilots that need tests have them once an epoch, also if the solver has no test_interval.
  if (!arguments.test_every && !(needs_tests && spec.test_every == std::uint64_t{0}))
    arguments.test_every = spec.test_every;
  OMNI_CHECK(check_rank_shares(arguments));
  find_fewest_cores(arguments.net);
  // With coded messages each rank sends one sum, so bits depend on the number of ranks.
  if (ranks::several() && arguments.send.kind != Coding::Kind::whole)
    arguments.net.fixed_sums = false;
  const Workers workers{computing_cores(arguments.machine.session) + arguments.net.gpus,
                        arguments.net.gpus};
  int devices =
      static_cast<int>(ranks::least(workers.gpus > 0 ? workers.gpus : workers.all)) * ranks::size();
  if (arguments.arrivals.simulated) {
    OMNI_TRY(machine, read_machine(arguments.arrivals.machine));
    devices = static_cast<int>(machine->devices.size());
  }
  OMNI_TRY(strategy, choose_strategy(arguments, devices));
  const GroupArguments& wanted = arguments.groups;
  OMNI_TRY(asynchrony, chosen_asynchrony(wanted, arguments.machine.session.deterministic));
  std::vector<bool> on_gpu;
  if (machine) {
    for (const auto& own : place_on(*machine, wanted.count.value_or(1), false).devices)
      on_gpu.push_back(machine->devices[own.front()].kind == Machine::Kind::gpu);
  } else {
    OMNI_TRY(const GroupPlaces places,
             place_groups(wanted, strategy.type->models, workers, kAnyWorkers));
    for (const std::vector<int>& members : places.workers)
      on_gpu.push_back(std::ranges::min(members) < workers.gpus);
  }
  OMNI_TRY(shape, shape_groups(strategy, spec.options.batch, on_gpu));
  OMNI_CHECK(open_groups_again());
  // The number of groups is lowered until the groups fit into half of the memory, but not below one
  // per device.
  while (strategy.grows && *wanted.count > std::max(devices, strategy.type->least_groups) &&
         ranks::any(groups->tensor_bytes() > physical_memory() / 2)) {
    arguments.groups.count = *wanted.count - devices;
    OMNI_CHECK(open_groups_again());
  }
  return {};
}

Status TrainInputs::open_groups_again() {
  OMNI_TRY(groups, arguments.groups.automatic
                       ? open_most_groups(spec, arguments,
                                          machine ? static_cast<int>(machine->devices.size()) : 0)
                       : open_groups(spec, arguments.net, arguments.groups, shape));
  // Before the groups of --auto and of a cold start, all ranks are one group.
  if (ranks::several() && (arguments.groups.automatic || arguments.groups.cold_start > 0)) {
    OMNI_TRY(const ComputeGroups one, open_groups(spec, arguments.net, {}));
  }
  return {};
}

Status TrainInputs::check() {
  OMNI_CHECK(check_planned(arguments));
  OMNI_CHECK(check_adam(arguments.groups, *strategy.type, spec.solver));
  OMNI_CHECK(check_automatic(arguments, spec.solver));
  OMNI_CHECK(check_clipping(spec, groups->count(),
                            arguments.groups.automatic || arguments.groups.planned));
  if (arguments.epochs && !std::isfinite(*arguments.epochs))
    return Error{ErrorKind::usage, "--epochs", "is not a number", "--epochs 3"};
  return {};
}

Status TrainInputs::try_places() {
  // Darknet's shipped cfgs have batch=1 for testing, and users forget to switch.
  if (groups->net().options().batch == 1)
    log::warn("training with batch=1; set --batch (128, say)");
  OMNI_CHECK(check_parameter_output(arguments, spec, groups->net()));
  if (!arguments.metrics.empty() && ranks::first())
    OMNI_CHECK(MetricsLog::check(arguments.metrics, arguments.resume != "none"));
  return {};
}

Status TrainInputs::find_origin() {
  const auto out = RunFolder::place(arguments.out, spec.name);
  if (arguments.resume == "auto") {
    OMNI_TRY(checkpoint, load_latest_checkpoint(out));
    goes_on = true;
    if (!checkpoint) log::info("no checkpoint in {}: starting afresh", out.string());
  } else if (arguments.resume != "none") {
    OMNI_TRY(checkpoint, load_checkpoint(arguments.resume));
    std::error_code unequal;  // a folder that does not exist yet is not the same
    goes_on = std::filesystem::equivalent(checkpoint->path.parent_path(), out, unequal);
  }
  seed = arguments.data.seed_of_net();
  data_seed = arguments.data.data_seed;
  if (checkpoint) {
    OMNI_TRY(seed, checkpoint->fields.number<std::uint64_t>("seed"));
    OMNI_TRY(data_seed, saved_data_seed(*checkpoint));
    const std::uint64_t own = data_seed.value_or(seed);
    if (seed != arguments.data.seed_of_net()) log::info("the checkpoint's seed {} is used", seed);
    if (arguments.data.data_seed && own != *arguments.data.data_seed)
      log::info("the checkpoint's --data-seed {} is used", own);
    if (!arguments.weights.empty())
      log::warn("--weights {}: not read, the parameters are the checkpoint's", arguments.weights);
    if (!arguments.snapshot.empty())
      log::warn("--snapshot {}: not read, the parameters are the checkpoint's", arguments.snapshot);
  } else if (!arguments.weights.empty()) {
    for (const auto& file : parameter_files(arguments.weights)) OMNI_CHECK(require_there(file));
  } else if (!arguments.snapshot.empty()) {
    OMNI_CHECK(require_there(arguments.snapshot));
  }
  return {};
}

Status TrainInputs::open_images(SharedTrainings* shared) {
  Net& net = groups->net();
  DataArguments wanted = arguments.data;
  wanted.seed = seed;
  wanted.data_seed = data_seed;
  wanted.test = !arguments.no_test;
  const auto open = [&]() -> Result<DatasetPair> {
    OMNI_TRY(DatasetPair pair, open_data(wanted, net, spec));
    if (net.classes() > 0)
      for (const std::string& each : class_warnings(pair)) log::warn("{}", each);
    pair.train = skip_damaged_images(std::move(pair.train), wanted.damaged, true);
    pair.test = skip_damaged_images(std::move(pair.test), wanted.damaged, false);
    return pair;
  };
  if (shared != nullptr) {
    OMNI_TRY(data, shared->open(wanted, net, spec.augment, open));
  } else {
    OMNI_TRY(DatasetPair own, open());
    data = std::make_shared<DatasetPair>(std::move(own));
  }
  if (static_cast<std::size_t>(net.options().batch) > data->train->size())
    log::info("a batch of {} is more than the {} training images: some are in it several times",
              net.options().batch, data->train->size());
  const std::string& source = arguments.data.source;
  const int classes = data->train->classes();
  if (classes < net.classes() && !source.empty() && !source.starts_with("synthetic"))
    log::info("the net has {} outputs, the data {} classes (--classes {} gives it as many)",
              net.classes(), classes, classes);
  if (checkpoint && !arguments.other_data) OMNI_CHECK(require_same_data(*checkpoint, data->name));
  for (const PilotType& type : pilot_types())
    if (const DeclaredOption* option = arguments.pilots.first_given(type.options);
        option && type.needs_tests && !data->test)
      return Error{ErrorKind::usage, std::string(option->name), "there is no test set",
                   "leave out --no-test; --hold-out 0.1 tests on a tenth of the training samples"};
    else if (option && type.needs_tests && net.classes() == 0)
      return Error{ErrorKind::usage, std::string(option->name),
                   "compares test accuracies, but the net has no classes", "leave it out"};
  iterations = planned_iterations(arguments, spec, data->train->size());
  identity = {.layers = layers_hash(spec),
              .data = data->name,
              .class_names = class_names_of(*data->train, net),
              .iterations = iterations,
              .data_seed = data_seed};
  return check_schedule(spec, seed, iterations, arguments.epochs.has_value());
}

Status TrainInputs::stage() {
  if (!arguments.stage) return {};
  std::string place = "/tmp";
  for (const char* name : {"TMPDIR", "SLURM_TMPDIR"})
    if (const std::string named = slurm::variable(name); !named.empty()) place = named;
  const std::array sets{data->train.get(), data->test.get()};
  Status staged;
  for (Dataset* set : sets)
    if (set != nullptr && staged) staged = set->stage(place);
  // If one rank has no room, all ranks delete their copies.
  staged = as_on_all_ranks(std::move(staged));
  for (Dataset* set : sets)
    if (set != nullptr && !staged) set->unstage();
  return staged;
}

PilotOptions TrainInputs::pilot_options(const Workers& workers) {
  const GroupArguments& wanted = arguments.groups;
  return {.automatic = wanted.automatic,
          .grows = strategy.grows,
          .guard = is_guarded(*strategy.type, wanted),
          .strict = arguments.net.strict,
          .health = !ranks::several(),
          .cold_start = wanted.cold_start,
          .groups = groups->count(),
          .least_groups = strategy.type->least_groups,
          .workers = workers,
          .asynchrony = machine ? Asynchrony::reproducible : asynchrony,
          .own = arguments.pilots,
          .make_another = make_pilot};
}

std::uint64_t TrainInputs::checkpoint_bytes() {
  std::uint64_t bytes = TrainingSnapshot::bytes(*groups);
  for (const auto& pilot : make_pilots(pilot_options({1, 0}))) bytes += pilot->kept_bytes(*groups);
  // Of each value, each rank has left something out, or knows it exactly. With meetings, each rank
  // has contributions, too.
  if (arguments.send.kind != Coding::Kind::whole)
    for (const Param* param : groups->net().params())
      bytes += param->master->bytes() * ranks::size() * (param->change != nullptr ? 2 : 1);
  return bytes;
}

}  // namespace omni
