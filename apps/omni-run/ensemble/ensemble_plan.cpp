#include "apps/omni-run/ensemble/ensemble_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "apps/omni-run/ensemble/fleet_table.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/training_length.hpp"
#include "layers/slice_choice.hpp"
#include "runtime/communicator/transfers.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "scheduling/forecast/fleet/rates.hpp"

namespace omni {
namespace {

constexpr std::size_t kMostDevices = 256;  // each number of devices is simulated

bool has_groups(const GroupArguments& groups) {
  return groups.automatic || groups.planned || groups.count.value_or(1) > 1 ||
         !groups.layout.empty() || !(groups.strategy.empty() || groups.strategy == "sync");
}

// Returns how many of `ranks` ranks may share the member's mini-batches. If it is one, `why` says
// why.
int most_ranks(const TrainArguments& of, const TrainableNet& spec, Net& net, int ranks,
               std::string& why) {
  const bool fixed = of.machine.session.deterministic;
  const bool at_once = std::ranges::any_of(net.params(), [](const Param* each) {
    return each->trainable && !each->by_slice && !each->whole_on_each_rank;
  });
  const bool ignores = std::ranges::any_of(
      net.layers(), [](const auto& each) { return each->ignored_labels().any(); });
  why = has_groups(of.groups)               ? "its strategy has groups"
        : of.arrivals.simulated             ? "--arrivals virtual simulates one process"
        : spec.solver.clip_gradients > 0    ? "clip_gradients needs the whole gradient on one rank"
        : ignores                           ? "a loss ignores a label, and no rank sees all of them"
        : of.net.strict                     ? "--strict does not see all samples on several ranks"
        : net.layers().size() > kMostLayers ? "its net has too many layers for several ranks"
        : fixed && at_once ? "--deterministic: the bits would depend on the number of ranks"
                           : "";
  if (!why.empty()) return 1;
  int most = 1;
  for (; most < ranks; ++most)
    if (const auto shared = share_slices(net.options().batch, {net.slices().all_sizes.front()},
                                         {.ranks = most + 1}, fixed);
        !shared) {
      if (most == 1) why = shared.error().what + " (" + shared.error().hint + ")";
      break;
    }
  return most;
}

// Finds what a plan must know of each member: its rates and its length. Without devices it finds
// its work on ranks.
class PlannedMembers {
 public:
  explicit PlannedMembers(Machine machine, int ranks = 1)
      : machine_(std::move(machine)), ranks_(ranks) {}

  Status add(const Member& member) {
    TrainArguments arguments = member.arguments;
    arguments.net.endless = arguments.epochs.has_value();
    arguments.net.fixed_sums = arguments.machine.session.deterministic;
    OMNI_TRY(const TrainableNet spec, read_net(arguments.net));
    OMNI_TRY(const auto net, build_net(spec, arguments.net, true));
    std::size_t images = 0;
    if (arguments.epochs) {
      OMNI_TRY(images, training_images(arguments.data, *net, spec));
    }
    const std::uint64_t iterations = planned_iterations(arguments, spec, images);
    const NetCosts costs = net_costs(*net);
    MemberWork& own = work.emplace_back();
    own.iterations = iterations;
    own.spread = {.flops = costs.flops,
                  .samples = iterations * static_cast<std::uint64_t>(net->options().batch),
                  .most_ranks = most_ranks(arguments, spec, *net, ranks_, own.one_rank)};
    if (machine_.devices.empty()) return {};
    if (iterations == 0)
      return Error{ErrorKind::usage, spec.name, "the training has no end, so nothing is planned",
                   "--epochs 10, say"};
    if (!machine_.devices.front().seconds.empty() && flops_.value_or(costs.flops) != costs.flops)
      return Error{ErrorKind::usage, spec.name,
                   "the \"seconds\" of the machine file are those of one net, the members have "
                   "several",
                   "use a machine file with \"flops_per_second\""};
    flops_ = costs.flops;
    fleet.members.push_back(
        {.rates = rates_of(costs),
         .samples = iterations * static_cast<std::uint64_t>(net->options().batch)});
    names.push_back(member.name);
    fleet.devices = static_cast<int>(machine_.devices.size());
    if (has_groups(arguments.groups)) in_groups.push_back(member.name);
    return {};
  }

  Status add_all(const std::vector<Member>& members) {
    for (const Member& each : members)
      if (Status added = add(each); !added) {
        added.error().where = each.name + ": " + added.error().where;
        return added;
      }
    return {};
  }

  Fleet fleet;
  std::vector<MemberWork> work;  // by member; without iterations: the training has no end
  std::vector<std::string> names;
  std::vector<std::string> in_groups;  // members that would not train in one synchronous group

 private:
  // Returns the number of training images. Each training set is opened once.
  Result<std::size_t> training_images(DataArguments data, const Net& net,
                                      const TrainableNet& spec) {
    data.test = false;
    if (data.source.empty()) data.source = spec.data;
    const Extent input = net.options().input;
    const std::tuple key(data.source, data.hold_out, data.scale_features, input.h, input.w, input.c,
                         net.classes(), spec.augment.flat);
    if (const auto known = images_.find(key); known != images_.end()) return known->second;
    OMNI_TRY(const DatasetPair opened, open_data(data, net, spec));
    return images_[key] = opened.train->size();
  }

  // Members of one net, such as those of a sweep, have equal rates.
  const std::vector<double>& rates_of(const NetCosts& costs) {
    const auto known = std::ranges::find(rates_, costs, &std::pair<NetCosts, Rates>::first);
    if (known != rates_.end()) return known->second;
    return rates_.emplace_back(costs, synchronous_rates(machine_, costs)).second;
  }

  using Rates = std::vector<double>;

  Machine machine_;
  int ranks_;
  std::optional<double> flops_;  // per image, of the members so far
  std::map<std::tuple<std::string, double, bool, int, int, int, int, bool>, std::size_t> images_;
  std::vector<std::pair<NetCosts, Rates>> rates_;
};

const char* text_of_kind(Machine::Kind kind) {
  return kind == Machine::Kind::gpu ? "gpu" : kind == Machine::Kind::cpu ? "cpu" : "node";
}

}  // namespace

Status plan_ensemble(const EnsembleArguments& arguments, const std::vector<Member>& members) {
  if (arguments.machine.empty())
    return Error{ErrorKind::usage, "--plan",
                 "the rates of this machine's workers are not known without measuring",
                 "--machine 8-gpus, say, or a file that `omni-run machine` has measured"};
  if (members.front().arguments.resume != "none")
    return Error{ErrorKind::usage, "--resume", "a plan is of whole trainings",
                 "leave out --resume, or --plan"};
  OMNI_TRY(const Machine machine, read_machine(arguments.machine));
  const Machine alike = devices_like_first(machine);
  if (alike.devices.size() > kMostDevices)
    return Error{ErrorKind::usage, "--machine " + arguments.machine,
                 fmt::format("has {} devices of its first kind, a plan is for at most {}",
                             alike.devices.size(), kMostDevices),
                 "lower their \"count\""};
  PlannedMembers planned(alike);
  OMNI_CHECK(planned.add_all(members));
  OMNI_TRY(const FleetPlan plan, plan_fleet(planned.fleet));
  if (arguments.common.json) {
    nlohmann::ordered_json all{{"machine", machine.name},
                               {"kind", text_of_kind(alike.devices.front().kind)},
                               {"devices", alike.devices.size()},
                               {"devices_of_machine", machine.devices.size()},
                               {"in_groups", planned.in_groups}};
    OMNI_TRY(const auto found, fleet_json(planned.fleet, plan, planned.names));
    all.update(found);
    log::result("{}\n", json_text(all, 2));
    return {};
  }
  std::string text = fmt::format("{} {} device{} of \"{}\"", alike.devices.size(),
                                 text_of_kind(alike.devices.front().kind),
                                 alike.devices.size() == 1 ? "" : "s", machine.name);
  if (alike.devices.size() < machine.devices.size())
    text +=
        fmt::format(": those that are like the first of its {} devices", machine.devices.size());
  text +=
      "\nforecast of the cost model: nothing was trained, and preparing samples takes no time\n";
  if (!planned.in_groups.empty())
    text += fmt::format("planned as one synchronous group each: {}\n",
                        fmt::join(planned.in_groups, ", "));
  if (!arguments.stop.empty()) text += "planned without --stop: all members train to their end\n";
  OMNI_TRY(const std::string table, fleet_table(planned.fleet, plan, planned.names));
  log::result("{}{}", text, table);
  return {};
}

Result<std::vector<MemberWork>> work_of(const std::vector<Member>& members, int ranks) {
  PlannedMembers planned(Machine{}, ranks);
  const log::Level level = log::level();
  log::set_level(log::Level::quiet);  // each training will print these messages
  Status added = planned.add_all(members);
  log::set_level(level);
  OMNI_CHECK(added);
  if (std::ranges::count(planned.work, 0u, &MemberWork::iterations) > 0)
    for (MemberWork& each : planned.work) {
      each.spread.flops = 1;
      each.spread.samples = std::uint64_t{1} << 50;
    }
  return std::move(planned.work);
}

}  // namespace omni
