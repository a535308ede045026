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
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "scheduling/forecast/fleet/rates.hpp"

namespace omni {
namespace {

constexpr std::size_t kMostDevices = 256;  // each number of devices is simulated

// Finds what a plan must know of each member: its rates and its length. Without devices it finds
// their work alone.
class PlannedMembers {
 public:
  explicit PlannedMembers(Machine machine) : machine_(std::move(machine)) {}

  Status add(const Member& member) {
    TrainArguments arguments = member.arguments;
    arguments.net.endless = arguments.epochs.has_value();
    OMNI_TRY(const TrainableNet spec, read_net(arguments.net));
    OMNI_TRY(const auto net, build_net(spec, arguments.net, true));
    std::size_t images = 0;
    if (arguments.epochs) {
      OMNI_TRY(images, training_images(arguments.data, *net, spec));
    }
    const std::uint64_t iterations = planned_iterations(arguments, spec, images);
    const NetCosts costs = net_costs(*net);
    work.push_back(static_cast<double>(iterations) * net->options().batch * costs.flops);
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
    const GroupArguments& groups = arguments.groups;
    if (groups.automatic || groups.planned || groups.count.value_or(1) > 1 ||
        !groups.layout.empty() || !(groups.strategy.empty() || groups.strategy == "sync"))
      in_groups.push_back(member.name);
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
  std::vector<double> work;  // operations, by member; 0: a training has no end
  std::vector<std::string> names;
  std::vector<std::string> in_groups;  // members that would not train in one synchronous group

 private:
  // Returns the number of training images. Each training set is opened once.
  Result<std::size_t> training_images(DataArguments data, const Net& net,
                                      const TrainableNet& spec) {
    data.test = false;
    const Extent input = net.options().input;
    const std::tuple key(data.source, data.hold_out, data.scale_features, input.h, input.w, input.c,
                         net.classes(), spec.augment.flat);
    if (const auto known = images_.find(key); known != images_.end()) return known->second;
    OMNI_TRY(const DatasetPair opened, open_data(data, net, spec.augment));
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

Result<std::vector<double>> work_of(const std::vector<Member>& members) {
  PlannedMembers planned(Machine{});
  const log::Level level = log::level();
  log::set_level(log::Level::quiet);  // each training will print these messages
  Status added = planned.add_all(members);
  log::set_level(level);
  OMNI_CHECK(added);
  if (std::ranges::count(planned.work, 0) > 0) planned.work.clear();
  return std::move(planned.work);
}

}  // namespace omni
