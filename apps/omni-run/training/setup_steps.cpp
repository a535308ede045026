// TrainCommand takes these steps before the first mini-batch. Errors that can be found are found
// here.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/ensemble/shared_trainings.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/memory_check.hpp"
#include "apps/omni-run/training/plan_groups.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "apps/omni-run/training/training.hpp"
#include "apps/omni-run/training/training_length.hpp"
#include "apps/output_file.hpp"
#include "layers/formats/parameters.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/data/damaged_images.hpp"
#include "runtime/data/data_check.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/memory/memory_limits.hpp"
#include "runtime/signals.hpp"
#include "runtime/slurm_job.hpp"
#include "runtime/tasks/codelet.hpp"
#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/forecast/machine/machine_file.hpp"

namespace omni {
namespace {

// This interval, in iterations, is longer than any training.
constexpr std::uint64_t kOnlyAtTheEnd = 1'000'000'000'000;

}  // namespace

TrainCommand::TrainCommand(TrainArguments arguments, SharedTrainings* shared,
                           const std::string& name,
                           std::function<std::unique_ptr<Pilot>()> make_pilot)
    : arguments_(std::move(arguments)),
      shared_(shared),
      make_pilot_(std::move(make_pilot)),
      caffe_log_(arguments_.logs_as_caffe ? std::optional(CaffeLog(arguments_.display))
                                          : std::nullopt),
      progress_(arguments_.common.quiet, shared != nullptr ? &shared->progress : nullptr, name) {}

Status TrainCommand::run() {
  OMNI_CHECK(prepare());
  return arguments_.dry_run ? Status() : train();
}

Status TrainCommand::prepare() {
  OMNI_CHECK(open_nets());
  OMNI_CHECK(check());
  OMNI_CHECK(check_ranks(arguments_, groups(), strategy_.grows));
  if (arguments_.dry_run) {
    log::result("{}\n", arguments_.common.json ? json_text(layer_table_json(net()), 2)
                                               : layer_table(net()));
    return {};
  }
  if (log::level() >= log::Level::normal && shared_ == nullptr) log::line(layer_table(net()));
  OMNI_CHECK(try_places());
  OMNI_CHECK(find_origin());
  OMNI_CHECK(open_images());
  OMNI_CHECK(compare_ranks());
  OMNI_CHECK(on_first_rank([this] { return prepare_folder(); }));
  if (arguments_.checkpoint_every == 0 && (arguments_.resume == "auto" || shared_ != nullptr))
    arguments_.checkpoint_every = kOnlyAtTheEnd;
  if (!slurm::job().empty())
    log::info("Slurm job {} on {}, restart {}; seed {}, run folder {}", slurm::job(),
              slurm::variable("SLURM_JOB_NODELIST"), slurm::restarts(), seed_,
              RunFolder::place(arguments_.out, spec_.name).string());
  OMNI_CHECK(time_limit_.start(checkpoint_bytes()));
  OMNI_CHECK(stage());
  if (ignores_interrupts())
    log::info("SIGINT (Ctrl-C) is ignored, as in scripts' background jobs; use kill -TERM {}",
              getpid());
  OMNI_CHECK(start());
  OMNI_CHECK(settle_groups());
  OMNI_CHECK(make_clock());
  make_training();
  const std::size_t others = shared_ != nullptr ? shared_->planned_bytes : 0;
  OMNI_TRY(const std::size_t planned,
           check_memory(*training_, arguments_.machine, *session_, others));
  if (shared_ != nullptr) shared_->planned_bytes += planned;
  OMNI_CHECK(training_->allocate());
  OMNI_TRY(start_, starting_point());
  // Trainings that share test samples read them when all are prepared.
  if (shared_ == nullptr) OMNI_CHECK(check_images());
  OMNI_TRY(recorder_,
           start_trace(arguments_.trace, *session_, net(),
                       shared_ != nullptr ? Recorder::Of::scopes : Recorder::Of::all_threads));
  return open_metrics();
}

Status TrainCommand::join_stream() {
  return is_finished() ? Status() : training_->join_stream(start_.samples);
}

Status TrainCommand::open_nets() {
  arguments_.net.endless = arguments_.epochs.has_value();
  OMNI_TRY(spec_, read_net(arguments_.net));
  if (arguments_.data.source.empty()) arguments_.data.source = spec_.data;
  arguments_.net.cores = static_cast<int>(ranks::least(arguments_.net.cores));
  const Workers workers{computing_cores(arguments_.machine.session) + arguments_.net.gpus,
                        arguments_.net.gpus};
  int devices =
      static_cast<int>(ranks::least(workers.gpus > 0 ? workers.gpus : workers.all)) * ranks::size();
  if (arguments_.arrivals.simulated) {
    OMNI_TRY(machine_, read_machine(arguments_.arrivals.machine));
    devices = static_cast<int>(machine_->devices.size());
  }
  OMNI_TRY(strategy_, choose_strategy(arguments_, devices));
  const GroupArguments& groups = arguments_.groups;
  OMNI_TRY(asynchrony_, chosen_asynchrony(groups, arguments_.machine.session.deterministic));
  std::vector<bool> on_gpu;
  if (machine_) {
    for (const auto& own : place_on(*machine_, groups.count.value_or(1), false).devices)
      on_gpu.push_back(machine_->devices[own.front()].kind == Machine::Kind::gpu);
  } else {
    OMNI_TRY(const GroupPlaces places,
             place_groups(groups, strategy_.type->models, workers, kAnyWorkers));
    for (const std::vector<int>& members : places.workers)
      on_gpu.push_back(std::ranges::min(members) < workers.gpus);
  }
  OMNI_TRY(shape_, shape_groups(strategy_, spec_.options.batch, on_gpu));
  OMNI_CHECK(open_groups_again());
  // The number of groups is lowered until the groups fit into half of the memory.
  while (strategy_.grows && *groups.count > std::max(devices, strategy_.type->least_groups) &&
         this->groups().tensor_bytes() > physical_memory() / 2) {
    arguments_.groups.count = *groups.count - devices;
    OMNI_CHECK(open_groups_again());
  }
  return {};
}

Status TrainCommand::open_groups_again() {
  OMNI_TRY(groups_,
           arguments_.groups.automatic
               ? open_most_groups(spec_, arguments_,
                                  machine_ ? static_cast<int>(machine_->devices.size()) : 0)
               : open_groups(spec_, arguments_.net, arguments_.groups, shape_));
  return {};
}

Status TrainCommand::check() {
  OMNI_CHECK(check_planned(arguments_));
  OMNI_CHECK(check_adam(arguments_.groups, *strategy_.type, spec_.solver));
  OMNI_CHECK(check_automatic(arguments_, spec_.solver));
  OMNI_CHECK(check_clipping(spec_, groups().count(),
                            arguments_.groups.automatic || arguments_.groups.planned));
  if (arguments_.epochs && !std::isfinite(*arguments_.epochs))
    return Error{ErrorKind::usage, "--epochs", "is not a number", "--epochs 3"};
  return {};
}

Status TrainCommand::try_places() {
  // Darknet's shipped cfgs have batch=1 for testing, and users forget to switch.
  if (net().options().batch == 1) log::warn("training with batch=1; set --batch (128, say)");
  OMNI_CHECK(check_snapshots());
  if (!arguments_.metrics.empty() && ranks::first())
    OMNI_CHECK(MetricsLog::check(arguments_.metrics, arguments_.resume != "none"));
  return {};
}

Status TrainCommand::find_origin() {
  const auto out = RunFolder::place(arguments_.out, spec_.name);
  if (arguments_.resume == "auto") {
    OMNI_TRY(checkpoint_, load_latest_checkpoint(out));
    goes_on_ = true;
    if (!checkpoint_) log::info("no checkpoint in {}: starting afresh", out.string());
  } else if (arguments_.resume != "none") {
    OMNI_TRY(checkpoint_, load_checkpoint(arguments_.resume));
    std::error_code unequal;  // a folder that does not exist yet is not the same
    goes_on_ = std::filesystem::equivalent(checkpoint_->path.parent_path(), out, unequal);
  }
  seed_ = arguments_.data.seed;
  data_seed_ = arguments_.data.data_seed;
  if (checkpoint_) {
    OMNI_TRY(seed_, checkpoint_->fields.number<std::uint64_t>("seed"));
    OMNI_TRY(data_seed_, saved_data_seed(*checkpoint_));
    const std::uint64_t own = data_seed_.value_or(seed_);
    if (seed_ != arguments_.data.seed) log::info("the checkpoint's seed {} is used", seed_);
    if (arguments_.data.data_seed && own != *arguments_.data.data_seed)
      log::info("the checkpoint's --data-seed {} is used", own);
    if (!arguments_.weights.empty())
      log::warn("--weights {}: not read, the parameters are the checkpoint's", arguments_.weights);
    if (!arguments_.snapshot.empty())
      log::warn("--snapshot {}: not read, the parameters are the checkpoint's",
                arguments_.snapshot);
  } else if (!arguments_.weights.empty()) {
    for (const auto& file : parameter_files(arguments_.weights)) OMNI_CHECK(require_there(file));
  } else if (!arguments_.snapshot.empty()) {
    OMNI_CHECK(require_there(arguments_.snapshot));
  }
  return {};
}

Status TrainCommand::prepare_folder() {
  const bool pilot_saves = std::ranges::any_of(pilot_types(), [this](const PilotType& type) {
    return type.saves && arguments_.pilots.first_given(type.options) != nullptr;
  });
  const bool wanted = arguments_.checkpoint_every > 0 || !arguments_.out.empty() ||
                      arguments_.resume != "none" || pilot_saves;
  OMNI_TRY(RunFolder folder,
           RunFolder::prepare(RunFolder::place(arguments_.out, spec_.name), wanted, goes_on_,
                              arguments_.keep, checkpoint_bytes()));
  folder_.emplace(std::move(folder));
  if (wanted && arguments_.checkpoint_every == 0) {
    // Or the same line would train once more.
    const bool at_end = arguments_.resume == "auto" || shared_ != nullptr;
    log::info("checkpoints: only {}when the run is stopped (--checkpoint-every 1000, say)",
              at_end ? "at the end, and " : "");
  }
  return {};
}

Status TrainCommand::start() {
  if (shared_ != nullptr) {
    session_ = &shared_->session;
  } else {
    OMNI_TRY(own_session_, start_session(arguments_.machine));
    session_ = &*own_session_;
  }
  if (ranks::several()) idle_workers_.emplace();
  return {};
}

Status TrainCommand::settle_groups() {
  GroupArguments& groups = arguments_.groups;
  if (groups.planned) {
    OMNI_TRY(ChosenGroups chosen, choose_groups(arguments_, checkpoint_, *session_, *data_->train,
                                                data_->name, machine_));
    log::info("chose {} compute group{}: {}", chosen.count, chosen.count == 1 ? "" : "s",
              chosen.reason);
    group_plan_ = std::move(chosen.plan);
    groups.count = chosen.count;
    OMNI_CHECK(open_groups_again());
  }
  OMNI_CHECK(strategy_.grows
                 ? require_group_scheduler(session_->scheduler())
                 : assign_workers(this->groups(), groups, strategy_.type->models, *session_));
  const StrategyType& type = *strategy_.type;
  if (&type != &usual_strategy(true) && &type != &usual_strategy(false))
    log::info("strategy: {}", type.name);
  warn_about_groups(this->groups(), groups, type, spec_.solver, iterations_);
  return {};
}

void TrainCommand::make_training() {
  const auto stream = [&](const Dataset* data, bool training) -> SharedStream* {
    if (shared_ == nullptr) return nullptr;
    return shared_->stream(data, {.training = training,
                                  .seed = data_seed_.value_or(seed_),
                                  .augment = spec_.augment,
                                  .net_input = net().options().input});
  };
  stream_ = stream(data_->train.get(), true);
  training_.emplace(TrainingPlan{.net = spec_,
                                 .groups = shape_,
                                 .data = data_.get(),
                                 .seed = seed_,
                                 .data_seed = data_seed_,
                                 .stream = stream_,
                                 .test_stream = stream(data_->test.get(), false),
                                 .strategy = strategy_.make(),
                                 .pilots = pilot_options(),
                                 .length = lengths(),
                                 .events = events()},
                    std::move(*groups_));
}

// Warns of simulated devices that have nothing to do.
bool TrainCommand::warn_of_idle(VirtualClock clock) {
  std::size_t idle = 0;
  const std::size_t groups = clock.placement().devices.size();
  for (std::size_t group = 0; group < groups; ++group) {
    const std::uint64_t samples = strategy_.options.group_batches.size() > group
                                      ? strategy_.options.group_batches[group].start
                                      : net().options().batch;
    idle += std::ranges::count(clock.division(static_cast<int>(group), samples).samples, 0u);
  }
  if (idle > 0)
    log::warn(
        "{} of {} simulated devices are idle with {} groups: mini-batches have too few images",
        idle, machine_->devices.size(), groups);
  return idle > 0;
}

Status TrainCommand::make_clock() {
  if (!machine_) return {};
  make_clock_ = [this, costs = net_costs(net())](int groups) {
    const bool merges = groups > 1 && net().has(Net::Phase::merged);
    return std::make_unique<VirtualClock>(*machine_, place_on(*machine_, groups, merges), costs,
                                          seed_);
  };
  log::info("virtual clock: {}", machine_->name);
  const bool begins_in_one = arguments_.groups.automatic || arguments_.groups.cold_start > 0;
  for (const int count : {begins_in_one ? 1 : groups().count(), groups().count()})
    if (warn_of_idle(*make_clock_(count))) break;
  return {};
}

// Rounds the position in the data down to whole passes, so after smaller mini-batches some samples
// may be used again. The state of a virtual clock of another machine is dropped.
void TrainCommand::align(TrainingState& state) const {
  const std::uint64_t unit = shape_.images_per_pass.empty()
                                 ? groups().net().options().batch
                                 : std::ranges::min(shape_.images_per_pass);
  if (state.samples % unit != 0) {
    log::info("continues at sample {} instead of {}: mini-batches are multiples of {}",
              state.samples - state.samples % unit, state.samples, unit);
    state.samples -= state.samples % unit;
  }
  if (!machine_ || !state.arrivals || state.arrivals->machine == machine_->name) return;
  log::warn("the checkpoint's virtual clock is of another machine: the clock starts at 0");
  state.arrivals.reset();
  state.simulated_before = 0;
}

// Fills the parameters: from the checkpoint, a .weights file, or the seed.
Result<TrainingState> TrainCommand::starting_point() {
  net().initialise(seed_);
  if (checkpoint_) {
    if (arguments_.groups.automatic || strategy_.grows) {
      OMNI_TRY(const int saved, saved_groups(*checkpoint_));
      groups().use(std::clamp(saved, strategy_.type->least_groups, groups().most()),
                   workers_of(*session_));
    }
    OMNI_TRY(TrainingState state,
             restore_training(groups(), *checkpoint_, identity_.layers, strategy_.state_name()));
    if (arguments_.other_data) {
      state.damaged.clear();
      std::erase_if(state.pilots, [](const auto& of) {
        const PilotType* type = find_pilot(of.first);
        return type == nullptr || !type->outlasts_data;
      });
      state.kept.clear();
    }
    const auto steers = [this](std::string_view name) {
      return std::ranges::any_of(training_->pilots(),
                                 [&](const auto& each) { return each->name() == name; });
    };
    for (const auto& [name, numbers] : state.pilots)
      if (const PilotType* type = find_pilot(name);
          type && !steers(name) && !type->left_out.empty())
        log::warn("{}: {}", checkpoint_->path.string(), type->left_out);
    std::erase_if(state.kept, [&](const auto& of) { return !steers(of.first); });
    align(state);
    const bool counts_iterations = std::ranges::any_of(pilot_types(), [&](const PilotType& type) {
      return type.counts_iterations && steers(type.name);
    });
    if (counts_iterations && state.samples != state.iteration * net().options().batch)
      return Error{ErrorKind::usage, checkpoint_->path.string(),
                   fmt::format("its {} iterations took mini-batches of other sizes than {}",
                               state.iteration, net().options().batch),
                   "resume with the strategy of before; or with --guard off, without --auto, "
                   "--groups auto and --cold-start"};
    log::info("resumed {} at iteration {}", checkpoint_->path.string(), state.iteration);
    warn_about_new_length(spec_, saved_length(*checkpoint_), iterations_, state.iteration);
    return state;
  }
  TrainingState state{.seed = seed_};
  if (const std::string& file = arguments_.snapshot; !file.empty()) {
    OMNI_TRY(const CaffeSnapshot snapshot, load_caffe_snapshot(net(), file));
    OMNI_CHECK(load_parameters(net(), snapshot.parameters));
    state.iteration = snapshot.iteration;
    state.samples = snapshot.iteration * static_cast<std::uint64_t>(net().options().batch);
    OMNI_CHECK(compare_parameters("--snapshot"));
    log::info("{}: goes on at iteration {}", file, state.iteration);
  }
  if (!arguments_.weights.empty()) {
    OMNI_CHECK(load_parameters(net(), arguments_.weights));
    OMNI_CHECK(compare_parameters("--weights"));
  }
  groups().refresh_replicas();
  return state;
}

}  // namespace omni
