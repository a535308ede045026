#include "apps/omni-run/training/train_command.hpp"

#include <unistd.h>

#include <algorithm>

#include "apps/omni-run/ensemble/shared_trainings.hpp"
#include "apps/omni-run/groups/plan_groups.hpp"
#include "apps/omni-run/groups/rank_speeds.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/memory_check.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "apps/omni-run/training/rank_comparison.hpp"
#include "apps/omni-run/training/starting_point.hpp"
#include "runtime/communicator/keeper.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/signals.hpp"
#include "runtime/slurm_job.hpp"

namespace omni {
namespace {

// This interval, in iterations, is longer than any training.
constexpr std::uint64_t kOnlyAtTheEnd = 1'000'000'000'000;

}  // namespace

TrainCommand::TrainCommand(TrainArguments arguments, SharedTrainings* shared,
                           const std::string& name,
                           std::function<std::unique_ptr<Pilot>()> make_pilot)
    : inputs_{.arguments = std::move(arguments), .make_pilot = std::move(make_pilot)},
      shared_(shared),
      report_(inputs_.arguments, shared != nullptr ? &shared->progress : nullptr, name) {}

Status TrainCommand::run() {
  OMNI_CHECK(prepare());
  return inputs_.arguments.dry_run ? Status() : train();
}

Status TrainCommand::prepare() {
  OMNI_CHECK(inputs_.open_nets());
  OMNI_CHECK(inputs_.check());
  OMNI_CHECK(check_ranks(inputs_.arguments, groups(), inputs_.strategy.grows, shared_ != nullptr));
  if (inputs_.arguments.dry_run) {
    log::result("{}\n", inputs_.arguments.common.json ? json_text(layer_table_json(net()), 2)
                                                      : layer_table(net()));
    return {};
  }
  if (log::level() >= log::Level::normal && shared_ == nullptr) log::line(layer_table(net()));
  OMNI_CHECK(inputs_.try_places());
  OMNI_CHECK(inputs_.find_origin());
  OMNI_CHECK(inputs_.open_images(shared_));
  damage_.emplace(inputs_.data, report_, shared_ != nullptr);
  OMNI_CHECK(compare_ranks(inputs_, shared_ == nullptr));
  std::uint64_t& every = inputs_.arguments.checkpoint_every;
  if (inputs_.arguments.survive && every == 0) {
    every = std::max<std::uint64_t>(per_epoch() / 10, 1);
    log::info("--survive: a checkpoint every {} iterations (--checkpoint-every)", every);
  }
  OMNI_CHECK(on_first_rank([this] { return prepare_folder(); }));
  if (inputs_.arguments.checkpoint_every == 0 &&
      (inputs_.arguments.resume == "auto" || shared_ != nullptr))
    inputs_.arguments.checkpoint_every = kOnlyAtTheEnd;
  if (!slurm::job().empty())
    log::info("Slurm job {} on {}, restart {}; seed {}, run folder {}", slurm::job(),
              slurm::variable("SLURM_JOB_NODELIST"), slurm::restarts(), inputs_.seed,
              RunFolder::place(inputs_.arguments.out, inputs_.spec.name).string());
  OMNI_CHECK(time_limit_.start(inputs_.checkpoint_bytes()));
  OMNI_CHECK(inputs_.stage());
  if (ignores_interrupts())
    log::info("SIGINT (Ctrl-C) is ignored, as in scripts' background jobs; use kill -TERM {}",
              getpid());
  OMNI_CHECK(start());
  OMNI_CHECK(settle_groups());
  OMNI_CHECK(make_clock());
  make_training();
  const std::size_t others = shared_ != nullptr ? shared_->planned_bytes : 0;
  OMNI_TRY(const std::size_t planned,
           check_memory(*training_, inputs_.arguments.machine, *session_, others));
  if (shared_ != nullptr) shared_->planned_bytes += planned;
  OMNI_CHECK(training_->allocate());
  OMNI_TRY(start_, starting_point(inputs_, *training_));
  trained_samples_ = start_.samples;
  ranks::tell_keeper_saved(start_.iteration);
  // Trainings that share test samples read them when all are prepared.
  if (shared_ == nullptr) OMNI_CHECK(check_test_images());
  OMNI_TRY(recorder_,
           start_trace(inputs_.arguments.trace, *session_, net(),
                       shared_ != nullptr ? Recorder::Of::scopes : Recorder::Of::all_threads));
  return open_metrics();
}

Status TrainCommand::check_test_images() {
  OMNI_CHECK(damage_->try_known(start_.damaged));
  if (training_->test() == nullptr || !inputs_.data->test->has_all_sizes()) return {};
  // Ranks that train this member may have had other members of the data, or none, before.
  if (shared_ != nullptr && !ranks::any(shared_->takes_check_of(*inputs_.data))) return {};
  return damage_->check_test(*training_->test(), groups().evaluating_net().slices(),
                             start_.iteration);
}

Status TrainCommand::join_stream() {
  return is_finished() ? Status() : training_->join_stream(start_.samples);
}

Status TrainCommand::prepare_folder() {
  const bool pilot_saves = std::ranges::any_of(pilot_types(), [this](const PilotType& type) {
    return type.saves && inputs_.arguments.pilots.first_given(type.options) != nullptr;
  });
  const bool wanted = inputs_.arguments.checkpoint_every > 0 || !inputs_.arguments.out.empty() ||
                      inputs_.arguments.resume != "none" || pilot_saves;
  OMNI_TRY(RunFolder folder,
           RunFolder::prepare(RunFolder::place(inputs_.arguments.out, inputs_.spec.name), wanted,
                              inputs_.goes_on, inputs_.arguments.keep, inputs_.checkpoint_bytes()));
  folder_.emplace(std::move(folder));
  if (wanted && inputs_.arguments.checkpoint_every == 0) {
    // Without a checkpoint at the end, the same command line would train once more.
    const bool at_end = inputs_.arguments.resume == "auto" || shared_ != nullptr;
    log::info("checkpoints: only {}when the run is stopped (--checkpoint-every 1000, say)",
              at_end ? "at the end, and " : "");
  }
  return {};
}

Status TrainCommand::start() {
  if (shared_ != nullptr) {
    session_ = &shared_->session;
  } else {
    OMNI_TRY(own_session_, start_session(inputs_.arguments.machine));
    session_ = &*own_session_;
  }
  if (ranks::several()) idle_workers_.emplace();
  return {};
}

Status TrainCommand::settle_groups() {
  GroupArguments& groups = inputs_.arguments.groups;
  if (groups.planned) {
    OMNI_TRY(ChosenGroups chosen,
             choose_groups(inputs_.arguments, inputs_.checkpoint, *session_, *inputs_.data->train,
                           inputs_.data->name, inputs_.machine));
    log::info("chose {} compute group{}: {}", chosen.count, chosen.count == 1 ? "" : "s",
              chosen.reason);
    group_plan_ = std::move(chosen.plan);
    groups.count = chosen.count;
    OMNI_CHECK(inputs_.open_groups_again());
  }
  if (shared_ == nullptr) OMNI_CHECK(settle_rank_shares(inputs_, *session_));
  tell_rank_shares(inputs_);
  OMNI_CHECK(inputs_.strategy.grows ? require_group_scheduler(session_->scheduler())
                                    : assign_workers(this->groups(), groups,
                                                     inputs_.strategy.type->models, *session_));
  const StrategyType& type = *inputs_.strategy.type;
  if (&type != &usual_strategy(true) && &type != &usual_strategy(false))
    log::info("strategy: {}", type.name);
  warn_about_groups(this->groups(), groups, type, inputs_.spec.solver, inputs_.iterations);
  warn_about_sending(inputs_.arguments.send, inputs_.strategy);
  return {};
}

void TrainCommand::make_training() {
  const auto stream = [&](const Dataset* data, bool training) -> SharedStream* {
    if (shared_ == nullptr) return nullptr;
    return shared_->stream(data, {.training = training,
                                  .seed = inputs_.data_seed.value_or(inputs_.seed),
                                  .augment = inputs_.spec.augment,
                                  .net_input = net().options().input});
  };
  stream_ = stream(inputs_.data->train.get(), true);
  GroupsPlan shape = inputs_.shape;
  shape.count = groups().count();
  shape.fully_connected = inputs_.arguments.groups.fully_connected;
  shape.ranks = groups().ranks();
  shape.weights = inputs_.arguments.groups.weights;
  shape.cores_by_rank = inputs_.arguments.net.cores_by_rank;
  training_.emplace(TrainingPlan{.net = inputs_.spec,
                                 .build = build_options(inputs_.spec, inputs_.arguments.net),
                                 .groups = std::move(shape),
                                 .data = inputs_.data.get(),
                                 .seed = inputs_.seed,
                                 .data_seed = inputs_.data_seed,
                                 .stream = stream_,
                                 .test_stream = stream(inputs_.data->test.get(), false),
                                 .strategy = inputs_.strategy.make(),
                                 .send = inputs_.arguments.send,
                                 .pilots = inputs_.pilot_options(workers_of(*session_)),
                                 .length = lengths(),
                                 .events = events()},
                    std::move(*inputs_.groups));
  inputs_.groups.reset();
  parameter_output_.emplace(inputs_.arguments, inputs_.spec, *training_, report_);
}

// Warns of simulated devices that have nothing to do.
bool TrainCommand::warn_of_idle(VirtualClock clock) {
  std::size_t idle = 0;
  const std::size_t groups = clock.placement().devices.size();
  for (std::size_t group = 0; group < groups; ++group) {
    const std::uint64_t samples = inputs_.strategy.options.group_batches.size() > group
                                      ? inputs_.strategy.options.group_batches[group].start
                                      : net().options().batch;
    idle += std::ranges::count(clock.division(static_cast<int>(group), samples).samples, 0u);
  }
  if (idle > 0)
    log::warn(
        "{} of {} simulated devices are idle with {} groups: mini-batches have too few images",
        idle, inputs_.machine->devices.size(), groups);
  return idle > 0;
}

Status TrainCommand::make_clock() {
  if (!inputs_.machine) return {};
  NetCosts costs = net_costs(net());
  costs.send = inputs_.arguments.send;
  make_clock_ = [this, costs](int groups) {
    const bool merges = groups > 1 && net().has(Net::Phase::merged);
    return std::make_unique<VirtualClock>(
        *inputs_.machine, place_on(*inputs_.machine, groups, merges), costs, inputs_.seed);
  };
  log::info("virtual clock: {}", inputs_.machine->name);
  const bool begins_in_one =
      inputs_.arguments.groups.automatic || inputs_.arguments.groups.cold_start > 0;
  for (const int count : {begins_in_one ? 1 : groups().count(), groups().count()})
    if (warn_of_idle(*make_clock_(count))) break;
  return {};
}

}  // namespace omni
