#include "scheduling/training/training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>

#include "runtime/communicator/ranks.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/calls/when_ready.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/training/feed_options.hpp"

namespace omni {

Workers workers_of(const Session& session) {
  const auto workers = session.workers();
  const auto on_cpus =
      std::ranges::count_if(workers, [](const WorkerInfo& each) { return each.kind == "CPU"; });
  const auto all = static_cast<int>(workers.size());
  return {all, all - static_cast<int>(on_cpus)};
}

Result<ComputeGroups> make_groups(const NetDescription& net, const BuildOptions& build,
                                  const GroupsPlan& plan) {
  const bool by_rank = !plan.ranks.empty();
  const int on_a_rank = by_rank ? (plan.count + ranks::size() - 1) / ranks::size() : plan.count;
  const int sharing = plan.sharing != 0 ? plan.sharing : on_a_rank;
  const auto per_group = [&](int all) { return all > 0 ? std::max(1, all / sharing) : 0; };
  const bool one = plan.models == GroupModels::one, own = plan.models == GroupModels::own;
  const Sharing like{.replicas = own,
                     .own_models = own,
                     .fully_connected = one ? plan.fully_connected : FullyConnected::replicated};
  const auto build_net = [&](const Sharing& shared, int slice, int group) {
    BuildOptions options = build;
    options.gpus = per_group(build.gpus);
    options.cores = per_group(build.cores);
    options.sharing = shared;
    if (!plan.images_per_pass.empty())
      options.images = plan.images_per_pass[group];
    else if (slice != 0)
      options.slice = slice;
    const RankRange on = by_rank ? plan.ranks[group] : RankRange{0, ranks::size()};
    const auto of_group = [&](const std::vector<int>& all) {
      return all.empty() || on.count == 1
                 ? std::vector<int>()
                 : std::vector(all.begin() + on.first, all.begin() + on.end());
    };
    options.shares = {std::max(0, ranks::rank() - on.first), on.count, of_group(plan.weights)};
    options.cores_by_rank = of_group(plan.cores_by_rank);
    options.most_ranks =
        by_rank ? std::ranges::max(plan.ranks, {}, &RankRange::count).count : ranks::size();
    return Net::build(net, options);
  };
  return ComputeGroups::make(plan.count, like, build_net, plan.ranks, plan.images_per_pass,
                             plan.weights);
}

Status check_clipping(const TrainableNet& net, int groups, bool automatic) {
  if (net.solver.clip_gradients <= 0 || (groups == 1 && !automatic && !ranks::several())) return {};
  return Error{ErrorKind::usage, net.place_of("clip_gradients"),
               groups == 1 && !automatic
                   ? "clip_gradients needs the whole gradient, of which each rank has a part"
                   : "clip_gradients is not for several groups: merged layers make their step "
                     "before the other gradients are complete",
               groups == 1 && !automatic ? "start one process"
                                         : "train with one group, or without clip_gradients"};
}

Result<std::unique_ptr<Training>> Training::make(TrainingPlan plan, const Session& session) {
  if (plan.data == nullptr || !plan.data->train)
    return Error{ErrorKind::usage, plan.net.name, "the plan has no training data",
                 "set TrainingPlan::data"};
  plan.build.adam = keeps_two_states(plan.net.solver.rule, plan.net.solver.adam);
  plan.build.rule = plan.net.solver.rule;
  plan.build.clips = plan.net.solver.clip_gradients > 0;
  OMNI_CHECK(check_clipping(plan.net, plan.groups.count, plan.pilots.automatic));
  plan.pilots.groups = plan.groups.count;
  plan.pilots.workers = workers_of(session);
  OMNI_TRY(ComputeGroups groups, make_groups(plan.net, plan.build, plan.groups));
  const std::string name = plan.strategy(groups, plan.net.solver)->name();
  if (const auto type = find_strategy(name); type) {
    if ((*type)->models != plan.groups.models)
      return Error{ErrorKind::usage, plan.net.name,
                   "GroupsPlan::models are not the models of the strategy " + name,
                   "set them to StrategyType::models of find_strategy()"};
    if (plan.pilots.automatic && !uses(**type, "--auto"))
      return Error{ErrorKind::usage, plan.net.name,
                   "PilotOptions::automatic is not for the strategy " + name,
                   "leave it out, or use async"};
    plan.pilots.guard = plan.pilots.guard && uses(**type, "--guard");
  }
  if (groups.count() > 1) groups.assign(spread_groups(groups.count(), plan.pilots.workers));
  auto training = std::make_unique<Training>(std::move(plan), std::move(groups));
  for (const auto& pilot : training->pilots())
    if (const PilotType* type = find_pilot(pilot->name());
        type && type->needs_tests && training->test() == nullptr)
      return Error{ErrorKind::usage, training->plan_.net.name,
                   fmt::format("the pilot '{}' needs a test set", type->name),
                   "set DatasetPair::test"};
  OMNI_CHECK(training->allocate());
  training->groups_.net().initialise(training->plan_.seed);
  training->groups_.refresh_replicas();
  return training;
}

Training::Training(TrainingPlan plan, ComputeGroups groups)
    : plan_(std::move(plan)), groups_(std::move(groups)), pilots_(make_pilots(plan_.pilots)) {
  connect();
}

void Training::connect() {
  if (ranks::several()) groups_.sums = &sums_.emplace(groups_, plan_.send);
  const std::uint64_t data_seed = plan_.data_seed.value_or(plan_.seed);
  std::size_t made = 0;
  const auto make_feed = [&](const Net& net, int slots, SharedStream* stream) -> DataFeed& {
    if (made == feeds_.size()) feeds_.emplace_back();
    return feeds_[made++].emplace(
        *plan_.data->train, feed_options(net, plan_.net.augment, data_seed, true, slots, stream));
  };
  const std::vector<int>& images = plan_.groups.images_per_pass;
  if (images.empty()) {
    make_feed(groups_.net(), Trainer::slots(groups_), plan_.stream);
  } else {
    std::map<int, std::vector<int>> groups_of;  // key: images per pass
    for (const int group : groups_.here()) groups_of[images[group]].push_back(group);
    feed_of_group_.resize(images.size());
    for (const auto& [count, members] : groups_of) {
      DataFeed& feed =
          make_feed(groups_.net(members.front()),
                    Trainer::slots_of_passes(static_cast<int>(members.size())), nullptr);
      for (const int group : members) feed_of_group_[group] = &feed;
    }
  }
  if (plan_.data->test)
    test_.emplace(*plan_.data->test,
                  feed_options(groups_.evaluating_net(), plan_.net.augment, data_seed, false,
                               kEvaluationSlots, plan_.test_stream));
}

Status Training::allocate() {
  OMNI_CHECK(groups_.allocate());
  if (sums_) OMNI_CHECK(sums_->allocate());
  for (auto& feed : feeds_) OMNI_CHECK(feed->allocate());
  return test_ ? test_->allocate() : Status();
}

Status Training::run(TrainingState from) {
  TrainerOptions options = plan_.length;
  options.solver = plan_.net.solver;
  options.strategy = plan_.strategy;
  options.feeds = feed_of_group_;
  if (!options.use_groups) options.use_groups = [this](int count) { return use_groups(count); };
  std::vector<Pilot*> pilots;
  for (const auto& pilot : pilots_) pilots.push_back(pilot.get());
  trainer_.emplace(groups_, *feeds_.front(), test(), std::move(from), std::move(options),
                   plan_.events, std::move(pilots));
  Status done = trainer_->run();
  for (auto& feed : feeds_) feed->leave_stream();
  return done;
}

// Readers of a shared stream are made before the first one joins, so a training that has one keeps
// its groups.
Status Training::use_groups(int count) {
  if (!ranks::several() || plan_.stream != nullptr) {
    groups_.use(count, plan_.pilots.workers);
    return {};
  }
  Status made = make_anew(count);
  if (!made) ranks::leave_for(made.error());
  return made;
}

// Returns groups as a training in `count` groups has them from its start.
Result<ComputeGroups> Training::other_groups(int count) const {
  GroupsPlan plan = plan_.groups;
  GroupPlaces places;
  if (count > 1 || plan.models != GroupModels::one)
    places = spread_over_ranks(count, plan_.pilots.workers, ranks::size(), plan.weights);
  if (count != plan.count) plan.ranks = std::move(places.ranks);
  plan.count = count;
  OMNI_TRY(ComputeGroups groups, make_groups(plan_.net, plan_.build, plan));
  groups.assign(places.workers);
  groups.allow(groups_.most());
  return groups;
}

// All ranks have the master copies, and get the optimizer state from its owners. So each of them
// keeps a copy while the old groups give up their memory, and no rank sends it again.
Status Training::make_anew(int count) {
  OMNI_TRY(ComputeGroups groups, other_groups(count));
  OMNI_CHECK(sums_->share_memory());
  std::vector<std::vector<float>> kept = groups_.shared_values();
  sums_.reset();
  for (auto& feed : feeds_) feed.reset();
  test_.reset();
  groups_ = std::move(groups);
  connect();
  OMNI_CHECK(allocate());
  groups_.begin_from(std::move(kept));
  return {};
}

Status Training::prepare_samples(std::uint64_t end,
                                 const std::function<void(std::uint64_t)>& on_ready) {
  DataFeed& feed = *feeds_.front();
  const std::uint64_t batch = feed.batch(), ahead = batch * feed.slots();
  Status status;
  for (std::uint64_t first = 0, next = 0; status && first < end; first += batch) {
    for (; next < std::min(end, first + ahead); next += batch) feed.submit(next);
    // The promise is shared, as a worker may still hold it when the wait is over.
    const auto ready = std::make_shared<std::promise<void>>();
    when_ready(feed.slot(first).images, [ready] { ready->set_value(); });
    ready->get_future().wait();
    feed.release(first);
    status = task_status();
    if (status && stop_requested())
      status = Error{ErrorKind::interrupted, "", "stopped while preparing samples", ""};
    if (status) on_ready(first + batch);
  }
  feed.leave_stream();
  const Status done = wait_for_tasks();
  return status ? done : status;
}

Status Training::join_stream(std::uint64_t first_sample) {
  for (auto& feed : feeds_) OMNI_CHECK(feed->join_stream(first_sample));
  return {};
}

}  // namespace omni
