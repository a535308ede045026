#include "apps/omni-run/ensemble/trained_nets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <system_error>

#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training_arguments.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Reads the member's own options. The mini-batch and the workers are those of the command.
Result<TrainedNet> trained_member(const fs::path& folder, const EnsembleMember& member,
                                  const NetArguments& command) {
  const std::string file = folder / kEnsembleFile, shown = shown_name(member.name);
  TrainedNet trained{.member = member.name, .arguments = command};
  TrainArguments training;
  GivenOptions given;
  if (read_options(table_of(training), member.options, given))
    return Error{ErrorKind::data, file,
                 fmt::format("the options of {} are not those of a training", shown),
                 "they are the words of its command line"};
  trained.data = training.data;
  NetArguments& own = trained.arguments;
  static_cast<ReadOptions&>(own) = training.net;
  own.data = training.data.source;
  own.net = member.net;
  own.solver = member.solver.empty() ? training.net.solver : member.solver;
  if (const auto net = find_net(own); !net)
    return Error{
        ErrorKind::data, file,
        fmt::format("{} has the net {}: {}", shown, shown_name(member.net), net.error().what),
        net.error().hint};
  own.strict = command.strict;
  own.refused = training.net.refused;
  own.named.batch = command.named.batch;
  own.named.subdivisions = command.named.subdivisions;
  trained.weights = member_weights(folder, member);
  std::error_code ignored;
  if (!fs::exists(trained.weights, ignored))
    return Error{ErrorKind::data, trained.weights, "is missing, although the member has finished",
                 "train it again, or remove it from " + std::string(kEnsembleFile)};
  return trained;
}

}  // namespace

Status TrainedNets::check_outputs() const {
  const TrainedNet& first = nets.front();
  for (const TrainedNet& each : nets) {
    const auto* softmax = std::get_if<SoftmaxOptions>(&each.spec.layers.back().options);
    if (softmax == nullptr || softmax->groups != 1)
      return Error{ErrorKind::usage, each.net->name(),
                   "the outputs are no probabilities, which an ensemble averages",
                   "end the net with a softmax layer of one group"};
    if (each.net->classes() != first.net->classes())
      return Error{ErrorKind::data, ensemble,
                   fmt::format("{} has {} outputs, {} has {}", shown_name(first.member),
                               first.net->classes(), shown_name(each.member), each.net->classes()),
                   "members of an ensemble tell the same classes apart"};
  }
  return {};
}

Result<TrainedNets> find_trained_nets(const NetArguments& command, const std::string& weights,
                                      const std::string& ensemble) {
  TrainedNets found{.ensemble = ensemble};
  if (found.alone()) {
    found.nets.push_back({.arguments = command, .weights = weights});
    return found;
  }
  OMNI_TRY(std::vector<EnsembleMember> members, read_ensemble(ensemble));
  for (EnsembleMember& member : members) {
    if (member.state == MemberState::finished) {
      OMNI_TRY(TrainedNet trained, trained_member(ensemble, member, command));
      found.nets.push_back(std::move(trained));
      continue;
    }
    log::warn("{}: {} is left out: it {} {}", ensemble, shown_name(member.name),
              member.state == MemberState::diverged ? "has" : "is", text_of(member.state));
    found.left_out.push_back(std::move(member));
  }
  if (!found.nets.empty()) return found;
  return Error{ErrorKind::data, ensemble, "no member has finished", "let one train to its end"};
}

DataArguments drawn_as_trained(DataArguments arguments, const TrainedNet& trained) {
  if (arguments.seed) return arguments;
  if (trained.member.empty())
    arguments.seed = trained.spec.seed;
  else if (arguments.hold_out > 0 && !arguments.data_seed)
    arguments.data_seed = trained.data.seed_of_samples();
  return arguments;
}

bool read_alike(const TrainedNet& one, const TrainedNet& other) {
  return one.net->options().input == other.net->options().input &&
         one.spec.augment.flat == other.spec.augment.flat &&
         one.spec.augment.parts == other.spec.augment.parts;
}

Result<std::vector<std::string>> prepare(const TrainedNet& trained, const DataFeed* test,
                                         const MachineArguments& machine, std::size_t more,
                                         const std::string& held_out_of) {
  Net& net = *trained.net;
  MemoryDemand demand = evaluation_demand(net, test, working_on_gpus(net));
  demand.in_main_memory_only = more;
  OMNI_CHECK(MemoryForecast(net, std::move(demand), machine).require());
  OMNI_CHECK(net.allocate());
  // A .caffemodel may lack layers, and no file has the parameters whose `in_files` is false.
  const auto params = net.params();
  if (trained.weights.ends_with(".caffemodel") ||
      !std::ranges::all_of(params, [](const Param* param) { return param->in_files; }))
    net.initialise(1);
  return load_parameters(net, trained.weights, held_out_of);
}

Status check_same_names(const TrainedNet& of, const std::vector<std::string>& names,
                        const std::vector<std::string>& other) {
  for (std::size_t i = 0; i < std::min(names.size(), other.size()); ++i)
    if (names[i] != other[i])
      return Error{ErrorKind::data, of.weights,
                   fmt::format("names class {} {}; another member names it {}", i,
                               shown_name(names[i]), shown_name(other[i])),
                   "members of an ensemble are trained on the same classes"};
  return {};
}

Result<std::vector<std::size_t>> likeliest(std::span<const float> outputs, std::size_t most,
                                           const std::string& where) {
  if (!std::ranges::all_of(outputs, [](float each) { return std::isfinite(each); }))
    return Error{ErrorKind::diverged, where, "the net's output is not a finite number",
                 "are these the weights of this net?"};
  std::vector<std::size_t> order(outputs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto top = static_cast<std::ptrdiff_t>(std::min(most, order.size()));
  std::partial_sort(order.begin(), order.begin() + top, order.end(), [&](auto a, auto b) {
    return outputs[a] != outputs[b] ? outputs[a] > outputs[b] : a < b;
  });
  order.resize(top);
  return order;
}

}  // namespace omni
