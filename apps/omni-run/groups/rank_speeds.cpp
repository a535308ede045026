#include "apps/omni-run/groups/rank_speeds.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/omni-run/groups/timed_training.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/data/open.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/own_command.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/forecast/rank_shares.hpp"
#include "scheduling/training/stopwatch.hpp"

namespace omni {
namespace {

using Shares = GroupArguments::Shares;

// A rank first trains some slices, so that StarPU's performance models settle, or for
// kSettlingSeconds seconds. Then it trains for three times kMeasuredSeconds seconds.
constexpr int kSettlingSlices = 70;
constexpr double kSettlingSeconds = 10, kMeasuredSeconds = 0.4;
constexpr std::size_t kMeasurements = 3;

std::string text_of(const std::vector<int>& weights) {
  return weights.empty() ? "equal" : fmt::format("{}", fmt::join(weights, ":"));
}

// Returns the images per second of this rank alone, while all ranks measure theirs.
Result<double> measure_own_speed(const TrainInputs& inputs) {
  TrainableNet spec = inputs.spec;
  spec.solver.learning_rate = 0;
  spec.solver.policy = RatePolicy::constant;
  spec.options.batch = std::max(spec.options.micro_batch() / ranks::size(), 1);
  spec.options.subdivisions = 1;
  NetArguments net = inputs.arguments.net;
  if (!net.cores_by_rank.empty()) net.cores = net.cores_by_rank[ranks::rank()];
  net.cores_by_rank.clear();
  if (net.slice > spec.options.batch) net.slice = 0;
  std::unique_ptr<TimedTraining> training;
  std::vector<double> speeds;
  for (InputPart& each : spec.augment.parts) each.augment.mean_image = {};
  const auto train = [&](int iterations) -> Result<double> {
    const ranks::Apart alone;
    if (!training) {
      OMNI_TRY(ComputeGroups one, open_groups(spec, net, {}));
      // Images of the training may have unlike sizes.
      OMNI_TRY(const DatasetPair data, open_dataset({.source = "synthetic",
                                                     .net_input = one.net().options().input,
                                                     .flat = spec.augment.flat,
                                                     .parts = spec.augment.parts,
                                                     .classes = one.net().classes(),
                                                     .losses = one.net().label_limits(),
                                                     .test = false}));
      OMNI_TRY(training,
               TimedTraining::make(std::move(one), spec, *data.train, inputs.arguments.machine));
    }
    return training->seconds(iterations, Asynchrony::reproducible);
  };
  const Stopwatch watch;
  int iterations = 2, slices = 0;
  do {
    const auto seconds = train(iterations);
    OMNI_CHECK(as_on_all_ranks(seconds ? Status() : Status(seconds.error())));
    if (slices >= kSettlingSlices || watch.seconds() > kSettlingSeconds)
      speeds.push_back(spec.options.batch * iterations / *seconds);
    slices += iterations * training->groups().net().slices().count();
    iterations =
        std::clamp(static_cast<int>(std::ceil(kMeasuredSeconds * iterations / *seconds)), 2, 1000);
  } while (ranks::any(speeds.size() < kMeasurements));
  std::ranges::nth_element(speeds, speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2));
  return speeds[speeds.size() / 2];
}

// Returns the speeds of all ranks. Those of one node with the same workers are taken to be equally
// fast, as they share its cores evenly: each has their mean.
std::vector<double> speeds_by_node(double own, const std::vector<std::string>& nodes) {
  std::vector<double> speeds;
  std::map<std::string, std::pair<double, int>> sums;
  for (const std::string& text : ranks::gather(fmt::format("{}", own)))
    speeds.push_back(number_in<double>(text).value_or(1));
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    sums[nodes[rank]].first += speeds[rank];
    ++sums[nodes[rank]].second;
  }
  for (std::size_t rank = 0; rank < nodes.size(); ++rank)
    speeds[rank] = sums[nodes[rank]].first / sums[nodes[rank]].second;
  return speeds;
}

// Returns other names for nodes, so that no two ranks are on one.
std::vector<std::string> numbered(std::vector<std::string> nodes) {
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) nodes[rank] += fmt::format("#{}", rank);
  return nodes;
}

// Returns the weights of the checkpoint if it was saved by ranks on the same nodes.
std::optional<std::vector<int>> saved_weights(const TrainInputs& inputs) {
  if (!inputs.checkpoint) return std::nullopt;
  const CheckpointFields& fields = inputs.checkpoint->fields;
  const auto saved = fields.text("rank_shares"), on = fields.text("rank_nodes");
  if (!saved || !on || *on != inputs.identity.rank_nodes) return std::nullopt;
  std::vector<int> weights;
  if (*saved == "equal") return weights;
  for (const std::string_view each : split(*saved, ':')) {
    const auto weight = count_in(each, 1'000'000);
    if (!weight) return std::nullopt;
    weights.push_back(*weight);
  }
  return weights.size() == static_cast<std::size_t>(ranks::size()) ? std::optional(weights)
                                                                   : std::nullopt;
}

}  // namespace

Status check_rank_shares(const TrainArguments& arguments) {
  const GroupArguments& groups = arguments.groups;
  const std::string option = "--rank-shares " + text_of(groups.weights);
  const auto named = std::ssize(groups.weights);
  if (groups.shares == Shares::given && arguments.survive)
    return Error{ErrorKind::usage, option, "with --survive the number of ranks varies",
                 "leave it out"};
  if (groups.shares == Shares::given && named != ranks::size())
    return Error{ErrorKind::usage, option,
                 fmt::format("names {} ranks, there {} {}", named, ranks::several() ? "are" : "is",
                             ranks::size()),
                 "name a weight for each rank, or leave it out"};
  if (groups.shares == Shares::measured && arguments.survive)
    return Error{ErrorKind::usage, "--rank-shares measured",
                 "with --survive the number of ranks varies", "leave it out"};
  if (groups.shares == Shares::measured && arguments.machine.session.deterministic)
    return Error{ErrorKind::usage, "--rank-shares measured",
                 "it measures times, which are never the same twice",
                 "name weights, as in 2:1, or leave out --deterministic"};
  return {};
}

void find_fewest_cores(NetArguments& net) {
  if (!ranks::several()) return;
  std::vector<int> all;
  for (const std::string& text : ranks::gather(fmt::format("{}", net.cores)))
    all.push_back(number_in<int>(text).value_or(net.cores));
  net.cores = std::ranges::min(all);
  if (std::ranges::max(all) > net.cores) net.cores_by_rank = std::move(all);
}

Status settle_rank_shares(TrainInputs& inputs, const Session& session) {
  GroupArguments& groups = inputs.arguments.groups;
  if (!ranks::several()) return {};
  const Workers workers = workers_of(session);
  const std::vector<std::string> nodes =
      ranks::gather(fmt::format("{}/{}/{}", own_host(), workers.all, workers.gpus));
  const std::string on = one_line(fmt::format("{}", fmt::join(nodes, " ")));
  if (!groups.weights.empty()) {
    inputs.identity.rank_shares = text_of(groups.weights);
    inputs.identity.rank_nodes = on;
  }
  const bool alike = std::ranges::count(nodes, nodes.front()) == std::ssize(nodes);
  const bool one_each = groups.count.value_or(1) == ranks::size() && groups.cold_start == 0;
  if (groups.shares == Shares::given || groups.shares == Shares::equal || one_each ||
      (groups.shares == Shares::automatic && alike) || inputs.arguments.survive ||
      inputs.arguments.machine.session.deterministic)
    return {};
  inputs.identity.rank_nodes = on;
  std::string why;
  if (const auto saved = saved_weights(inputs)) {
    groups.weights = *saved;
    why = "as in the checkpoint";
  } else {
    OMNI_TRY(const double own, measure_own_speed(inputs));
    const bool each = groups.shares == Shares::measured;
    const std::vector<double> speeds = speeds_by_node(own, each ? numbered(nodes) : nodes);
    groups.weights = weights_of_speeds(speeds);
    why = fmt::format("measured {:.0f} images/s", fmt::join(speeds, ", "));
  }
  inputs.identity.rank_shares = text_of(groups.weights);
  log::info("shares of the {} ranks: {}, {}", ranks::size(), text_of(groups.weights), why);
  return groups.weights.empty() ? Status() : inputs.open_groups_again();
}

void tell_rank_shares(const TrainInputs& inputs) {
  const Slices& slices = inputs.groups->net().slices();
  if (slices.ranks == 1) return;
  std::vector<int> images(static_cast<std::size_t>(slices.ranks));
  for (std::size_t slice = 0; slice < slices.owners.size(); ++slice)
    images[slices.owners[slice]] += slices.all_sizes[slice];
  if (inputs.arguments.groups.weights.empty())
    log::info("{} ranks share a mini-batch: {} of {} images on each", slices.ranks, slices.images(),
              slices.images_of_all());
  else
    log::info("{} ranks share a mini-batch: {} of {} images", slices.ranks, fmt::join(images, ", "),
              slices.images_of_all());
}

}  // namespace omni
