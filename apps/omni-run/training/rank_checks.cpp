#include "apps/omni-run/training/rank_checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/omni-run/groups/group_options.hpp"
#include "apps/omni-run/setup.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/communicator/transfers.hpp"
#include "runtime/log.hpp"
#include "scheduling/strategies/shared_options.hpp"

namespace omni {

void share_workers(MachineArguments& machine) {
  const int cores = ranks::share_cores();
  int& workers = machine.session.cpu_workers;
  if (workers < 0) workers = cores;
}

namespace {

// Any rank must be able to train any group, so the options say how many groups there are, and not
// where.
Status prepare_survival(TrainArguments& train) {
  if (!train.survive) return {};
  if (train.resume == "none") train.resume = "auto";
  const GroupArguments& groups = train.groups;
  return first_of(
      {{!groups.layout.empty(), "--group-layout", "with --survive the number of ranks varies",
        "--groups 4, say"},
       {groups.automatic || groups.count.value_or(1) < 2, "--survive",
        "it needs a number of groups; with sync all ranks compute each mini-batch, and a lost one "
        "ends the training",
        "--groups 4 --strategy sma, say"},
       {train.resume != "auto", "--resume " + train.resume,
        "--survive goes on from the newest checkpoint of the run folder",
        "leave it out, or name that folder with --out"}});
}

}  // namespace

Status prepare_ranks(TrainArguments& train) {
  OMNI_CHECK(prepare_survival(train));
  ranks::set_patience(train.patience);
  if (!ranks::several()) return {};
  share_workers(train.machine);
  if (ranks::first()) return {};
  train.common.quiet = true;
  train.metrics.clear();
  train.save_weights.clear();
  return {};
}

namespace {

Status check_one_rank(const TrainArguments& arguments) {
  if (arguments.send.kind == Coding::Kind::whole || arguments.survive) return {};
  if (!arguments.arrivals.simulated)
    return Error{ErrorKind::usage, "--send", "a training on one rank sends nothing",
                 "start several, as in mpiexec -n 2, or leave it out"};
  log::warn(
      "--send: the virtual clock counts smaller messages, but groups of one process share whole "
      "values");
  return {};
}

}  // namespace

namespace {

// Returns the largest number of slices that one rank has.
std::ptrdiff_t most_slices(const Slices& slices) {
  std::ptrdiff_t most = std::ssize(slices.sizes);
  for (const int owner : slices.owners)
    most = std::max(most, std::ranges::count(slices.owners, owner));
  return most;
}

}  // namespace

Status check_ranks(const TrainArguments& arguments, ComputeGroups& of, bool grows, bool shares) {
  if (!ranks::several()) return check_one_rank(arguments);
  const GroupArguments& groups = arguments.groups;
  Net& net = of.net();
  const bool one = of.count() == 1, merged = !one && net.has(Net::Phase::merged);
  const char *const keeps = "members that have several ranks keep their groups",
                    *const one_process = "start one process";
  OMNI_CHECK(
      first_of({{shares && groups.automatic, "--auto", keeps, "--spread work"},
                {shares && (groups.planned || grows), "--groups auto", keeps, "--spread work"},
                {arguments.arrivals.simulated, "--arrivals virtual",
                 "a simulated training is one process", one_process},
                {merged && !net.has(Net::Phase::replicated), "--fc merged",
                 "all layers would be on the first rank", "--fc replicated"},
                {merged && net.options().subdivisions > 1, "--subdivisions",
                 "merged layers of several ranks take whole mini-batches",
                 "--subdivisions 1, or --fc replicated"},
                {net.layers().size() > kMostLayers, "--net",
                 "over several ranks a net has 768 layers at most", one_process},
                {most_slices(net.slices()) > kMostSlices, "--slice",
                 "a rank has more than 256 slices", "larger slices"}}));
  if (arguments.net.strict)
    log::warn("--strict: over several ranks, nets that do not learn are not detected yet");
  const bool at_once = std::ranges::any_of(net.params(), [&net](const Param* each) {
    return each->trainable && !each->by_slice && !each->whole_on_each_rank && !net.is_merged(*each);
  });
  if (net.slices().ranks > 1 && at_once && arguments.machine.session.deterministic)
    log::warn(
        "--deterministic: large connected layers add up the images of a rank at once, so the bits "
        "depend on the number of ranks");
  return {};
}

void warn_about_sending(const Coding& send, const StrategyChoice& strategy) {
  const OptionUse* const use = find_use(*strategy.type, kCentralMomentum.name);
  if (send.kind != Coding::Kind::top || use == nullptr) return;
  if (strategy.options.own.number(kCentralMomentum).value_or(use->usual.value_or(0)) > 0)
    log::warn(
        "--send top: values arrive late, to which the momentum of the average adds; trainings "
        "diverged so (--central-momentum 0)");
}

Status on_first_rank(const std::function<Status()>& work) {
  if (!ranks::several()) return work();
  return as_on_all_ranks(ranks::first() ? work() : Status());
}

Status as_on_all_ranks(Status own) {
  if (!ranks::several()) return own;
  const std::vector<std::string> failures = ranks::gather(
      own ? "" : fmt::format("{}{}", static_cast<int>(own.error().kind), own.error().message()));
  const auto failure =
      std::ranges::find_if(failures, [](const std::string& each) { return !each.empty(); });
  if (failure == failures.end()) return {};
  const auto rank = static_cast<int>(failure - failures.begin());
  if (rank == 0 && !own) return own;
  return Error{static_cast<ErrorKind>(failure->front() - '0'), rank == 0 ? "" : ranks::name(rank),
               failure->substr(1), ""};
}

}  // namespace omni
