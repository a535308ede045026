// This file reads the files of Caffe's solvers, which count iterations from 0.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "layers/formats/caffe/caffe_layers.hpp"
#include "runtime/nearest.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

constexpr std::array<std::string_view, 6> kSolverTypes{"SGD",     "Nesterov", "AdaGrad",
                                                       "RMSProp", "AdaDelta", "Adam"};
constexpr std::array<std::string_view, 6> kOldSolverTypes{"SGD",     "NESTEROV", "ADAGRAD",
                                                          "RMSPROP", "ADADELTA", "ADAM"};
struct PolicyName {
  std::string_view name;
  RatePolicy policy;
};
constexpr std::array kPolicies{
    PolicyName{"fixed", RatePolicy::constant},  PolicyName{"step", RatePolicy::step},
    PolicyName{"exp", RatePolicy::exp},         PolicyName{"inv", RatePolicy::inv},
    PolicyName{"multistep", RatePolicy::steps}, PolicyName{"poly", RatePolicy::poly},
    PolicyName{"sigmoid", RatePolicy::sigmoid}};
constexpr int kAnyWhole = std::numeric_limits<int>::max();

// The fields of a solver hold these options of the training.
constexpr std::array<std::array<std::string_view, 2>, 9> kFieldsOfOptions{
    {{"policy", "lr_policy"},
     {"max_batches", "max_iter"},
     {"learning_rate", "base_lr"},
     {"momentum", "momentum"},
     {"decay", "weight_decay"},
     {"clip_gradients", "clip_gradients"},
     {"step", "stepsize"},
     {"steps", "stepvalue"},
     {"subdivisions", "iter_size"}}};

// Returns a hint: the nearest of the words, or all of them if none is near.
std::string one_of(std::string_view word, std::span<const std::string_view> words) {
  const std::string_view near = nearest(word, words);
  return near.empty() ? fmt::format("known: {}", fmt::join(words, " "))
                      : fmt::format("did you mean '{}'?", near);
}

bool has_epsilon(const SolverOptions& solver) {
  return solver.adam || solver.rule > StepRule::nesterov;
}

void read_solver_type(CaffeFields& fields, SolverOptions& solver) {
  std::string type = fields.text("type");
  if (fields.has("type") && fields.has("solver_type"))
    fields.refuse("solver_type", "solver_type beside type", "remove it: it is the old form");
  if (!fields.has("type") && fields.has("solver_type"))
    type = kSolverTypes[static_cast<std::size_t>(
        std::ranges::find(kOldSolverTypes, fields.word("solver_type")) - kOldSolverTypes.begin())];
  const std::string_view field = fields.has("type") ? "type" : "solver_type";
  constexpr std::array kRules{StepRule::rated,   StepRule::nesterov, StepRule::adagrad,
                              StepRule::rmsprop, StepRule::adadelta, StepRule::rated};
  solver.adam = type == "Adam";
  const auto found = std::ranges::find(kSolverTypes, type);
  if (found != kSolverTypes.end())
    solver.rule = kRules[static_cast<std::size_t>(found - kSolverTypes.begin())];
  else
    fields.refuse(field, fmt::format("unknown solver {}", shown_name(type)),
                  one_of(type, kSolverTypes));
}

// If the solver has a momentum but its type does not allow one, returns the type; otherwise "".
std::string without_momentum(const SolverOptions& solver) {
  if (solver.momentum == 0) return "";
  if (solver.rule == StepRule::adagrad) return "AdaGrad";
  return solver.rule == StepRule::rmsprop ? "RMSProp" : "";
}

void read_policy(CaffeFields& fields, bool overridden, SolverOptions& solver) {
  const float gamma = fields.real("gamma"), power = fields.real("power");
  if (fields.has("gamma")) solver.gamma = solver.scale = gamma;
  if (fields.has("power")) solver.power = power;
  if (fields.has("stepsize")) solver.step = fields.whole("stepsize", 1, kAnyWhole);
  for (int i = 0; i < fields.count("stepvalue"); ++i) {
    solver.steps.push_back(fields.whole("stepvalue", 0, kAnyWhole, i));
    solver.scales.push_back(gamma);
  }
  if (overridden) return;
  std::vector<std::string_view> names;
  for (const PolicyName& each : kPolicies) names.push_back(each.name);
  if (!fields.has("lr_policy"))
    return fields.refuse("", "has no lr_policy", fmt::format("known: {}", fmt::join(names, " ")));
  const std::string name = fields.text("lr_policy");
  const auto found = std::ranges::find(kPolicies, name, &PolicyName::name);
  if (found == kPolicies.end())
    return fields.refuse("lr_policy", fmt::format("unknown lr_policy {}", shown_name(name)),
                         one_of(name, names));
  solver.policy = found->policy;
  const auto needs = [&](std::string_view field) {
    if (!fields.has(field))
      fields.refuse("lr_policy", fmt::format("lr_policy {} without {}", name, field),
                    fmt::format("add {}", field));
  };
  if (name == "step" || name == "sigmoid") needs("stepsize");
  if (name == "multistep") needs("stepvalue");
  if (name != "fixed" && name != "poly") needs("gamma");
  if (name == "inv" || name == "poly") needs("power");
  if (name == "step" && gamma < 0)
    fields.refuse("gamma", fmt::format("gamma: {} is out of range", gamma),
                  "expected a number of at least 0");
  if (name == "sigmoid") solver.gamma = -gamma;  // Caffe's rises with the iterations
}

// As in Caffe, the name of the solver's file is the prefix if there is none, or if it is a folder.
// Without `snapshot` and a prefix nothing is written.
void read_snapshots(CaffeFields& fields, SnapshotOptions& snapshots) {
  snapshots.every = static_cast<std::uint64_t>(fields.whole("snapshot", 0, kAnyWhole));
  snapshots.at_end =
      fields.flag("snapshot_after_train") && (snapshots.every > 0 || fields.has("snapshot_prefix"));
  const std::filesystem::path prefix = fields.text("snapshot_prefix"), file = fields.file();
  snapshots.prefix = (prefix.has_filename() ? prefix.filename() : file.stem()).string();
  if (snapshots.prefix == "." || snapshots.prefix == "..")
    fields.refuse("snapshot_prefix", "snapshot_prefix names no file", "snapshot_prefix: \"lenet\"");
}

void read_solver_fields(CaffeFields& fields, const NamedOptions& named, TrainableNet& net) {
  SolverOptions& solver = net.solver;
  const float below_one = std::nextafter(1.0f, 0.0f);
  solver.first = 0;
  read_solver_type(fields, solver);
  const std::string decay = fields.text("regularization_type");
  solver.decay_by_sign = decay == "L1";
  if (decay != "L2" && (decay != "L1" || solver.adam))
    fields.refuse("regularization_type",
                  fmt::format("regularization_type {} is not supported", shown_name(decay)),
                  solver.adam ? "known for Adam: L2" : "known: L1 L2");
  if (!fields.has("base_lr") && !named.learning_rate)
    fields.refuse("", "has no base_lr", "add it, or give --learning-rate");
  solver.learning_rate = fields.real("base_lr", 0);
  solver.momentum = fields.real("momentum", 0, below_one);
  solver.decay = fields.real("weight_decay", 0);
  if (solver.adam) solver.square_memory = fields.real("momentum2", 0, below_one);
  if (solver.rule == StepRule::rmsprop)
    solver.square_memory = fields.real("rms_decay", 0, below_one);
  if (has_epsilon(solver)) solver.epsilon = fields.real("delta", 1e-20f);
  if (const std::string none = without_momentum(solver); !none.empty())
    fields.refuse("momentum", fmt::format("momentum: {} with {}", solver.momentum, none),
                  "it has none: remove it");
  solver.clip_gradients = std::max(fields.real("clip_gradients"), 0.0f);  // Caffe: below 0 is none
  if (fields.real("clip_gradients") == 0)
    fields.refuse("clip_gradients", "clip_gradients: 0 makes every gradient 0",
                  "remove it, or give a norm above 0");
  read_policy(fields, named.policy.has_value(), solver);
  solver.max_batches = fields.whole("max_iter", 0, kAnyWhole);
  net.options.subdivisions = fields.whole("iter_size", 1, kMostImages);
  net.averaged_losses = fields.whole("average_loss", 1, kAnyWhole);
  read_snapshots(fields, net.snapshots);
  // As in Caffe, nothing is tested without test_interval, except here at the end.
  net.test_every = fields.whole("test_interval", 0, kAnyWhole);
  net.tests_first = fields.flag("test_initialization") && *net.test_every > 0;
  if (const int display = fields.whole("display", 0, kAnyWhole); display > 0) net.display = display;
  if (const int seed = fields.whole("random_seed", -1, kAnyWhole); seed >= 0) net.seed = seed;
  for (const auto& [option, field] : kFieldsOfOptions)
    net.places[std::string(option)] = {fields.where(field), std::string(field)};
}

Status check_policy(const TrainableNet& net) {
  const SolverOptions& solver = net.solver;
  const auto refusal = [&](std::string what, std::string hint) {
    return Error{ErrorKind::usage, net.place_of("policy"), std::move(what), std::move(hint)};
  };
  if (solver.policy == RatePolicy::steps && solver.steps.empty())
    return refusal("the policy steps needs steps", "add stepvalue to the solver");
  if (solver.max_batches > 0) return {};
  if (solver.policy == RatePolicy::poly)
    return refusal("the policy poly needs a length",
                   "add max_iter to the solver, or --max-batches");
  if (solver.policy == RatePolicy::sgdr)
    return refusal("the policy sgdr needs a length",
                   "add max_iter to the solver, or --max-batches");
  return {};
}

}  // namespace

std::uint64_t length_of_caffe_solver(CaffeText& solver) {
  Status ignored;
  return static_cast<std::uint64_t>(CaffeFields(solver, ignored).whole("max_iter", 0, kAnyWhole));
}

Status set_caffe_solver(CaffeText& solver, const std::vector<std::string>& settings) {
  google::protobuf::Message& message = *solver.message;
  for (const std::string& setting : settings) {
    const std::string place = "--set " + setting;
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      return Error{ErrorKind::usage, place, "expected KEY=VALUE", "--set momentum=0.8"};
    const std::string key = setting.substr(0, equals), value = setting.substr(equals + 1);
    const auto* field = message.GetDescriptor()->FindFieldByName(key);
    if (field == nullptr || field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE)
      return Error{ErrorKind::usage, place, "unknown key of the solver",
                   "known are the fields of a solver, and height, width and channels"};
    std::string text = value;
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING)
      text = fmt::format("\"{}\"", value);
    else if (field->is_repeated())
      text = fmt::format("[{}]", value);
    OMNI_TRY(const CaffeText one,
             parse_caffe_text(key + ": " + text, place,
                              std::unique_ptr<google::protobuf::Message>(message.New())));
    message.GetReflection()->ClearField(&message, field);
    message.MergeFrom(*one.message);
    solver.set_elsewhere.push_back(key);
  }
  return {};
}

Status read_caffe_solver(CaffeFields* fields, const ReadOptions& how, TrainableNet& net) {
  how.named.for_each([&](const char* option, const auto& value) {
    if (value) net.commanded.insert(option);
  });
  for (const auto& [option, field] : kFieldsOfOptions)
    if (fields != nullptr && fields->is_commanded(field)) net.commanded.emplace(option);
  const NamedOptions named = how.named_beside(net.commanded);
  if (fields != nullptr) read_solver_fields(*fields, named, net);
  const int of_file = net.options.batch, iterations = net.options.subdivisions;
  SolverOptions& solver = net.solver;
  const auto take = [](const auto& from, auto& to) {
    if (from) to = *from;
  };
  take(named.learning_rate, solver.learning_rate);
  take(named.momentum, solver.momentum);
  take(named.decay, solver.decay);
  if (const std::string none = without_momentum(solver); named.momentum && !none.empty())
    return Error{ErrorKind::usage, "--momentum", fmt::format("{} has no momentum", none),
                 "leave it out"};
  take(named.policy, solver.policy);
  take(named.burn_in, solver.burn_in);
  take(named.max_batches, solver.max_batches);
  take(named.subdivisions, net.options.subdivisions);
  if (how.endless && solver.max_batches == 0) solver.max_batches = std::numeric_limits<int>::max();
  if (of_file > kMostImages / iterations)
    return Error{ErrorKind::usage, net.place_of("subdivisions"),
                 fmt::format("{} mini-batches of {} images", iterations, of_file),
                 fmt::format("at most {} images make an update", kMostImages)};
  net.options.batch = named.batch.value_or(of_file * iterations);
  if (net.options.batch % net.options.subdivisions != 0)
    return Error{ErrorKind::usage, net.place_of("subdivisions"),
                 fmt::format("batch {} is not divisible into {} mini-batches", net.options.batch,
                             net.options.subdivisions),
                 "choose a divisor of the batch, as in --subdivisions 1"};
  // Caffe's norm is that of the sum over the mini-batches.
  if (fields != nullptr) solver.clip_gradients /= static_cast<float>(net.options.subdivisions);
  // Caffe's delta is of the mean gradient; ours of the sum over the images.
  if (fields != nullptr && has_epsilon(solver))
    solver.epsilon *= static_cast<float>(net.options.batch);
  return check_policy(net);
}

}  // namespace omni
