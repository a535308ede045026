// This file makes descriptions from the messages of a net and a solver. It finds which layers are
// in which phase, and which blobs they read.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "layers/formats/caffe/caffe.hpp"
#include "layers/formats/caffe/caffe.pb.h"
#include "layers/formats/caffe/caffe_layers.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

constexpr int kMostCaffeLayers = 10'000;
using Kind = CaffeType::Kind;

struct FoundLayer {
  CaffeFields fields;
  const CaffeType* type;
  bool trains = true, tests = true;  // is in the phase
};

Result<std::vector<FoundLayer>> find_layers(CaffeFields& net, const CaffeStates& states,
                                            TrainableNet& to) {
  if (net.has("layer") && net.has("layers")) {
    net.refuse("layers", "layers beside layer", "write all of them as layer", 0);
    return Error{};
  }
  const char* list = net.has("layers") ? "layers" : "layer";
  const int count = net.count(list);
  if (count == 0)
    net.refuse("", "no layers", "is this the prototxt of a net?");
  else if (count > kMostCaffeLayers)
    net.refuse(list, fmt::format("more than {} layers", kMostCaffeLayers),
               "is this the prototxt of a net?", kMostCaffeLayers);
  if (net.failed()) return Error{};
  std::vector<FoundLayer> layers;
  for (int i = 0; i < count; ++i) {
    const CaffeFields fields = net.nested(list, i);
    const bool trains = states.train.has(fields), tests = states.test.has(fields);
    to.files.has_rules = to.files.has_rules || asks_for_stages(fields);
    if (!trains && !tests && !(fields.has("include") && fields.has("exclude"))) continue;
    OMNI_TRY(const CaffeType* type, find_caffe_type(fields));
    if (type->kind == Kind::loss && trains != tests) to.files.has_rules = true;
    layers.push_back({fields, type, trains, tests});
  }
  return layers;
}

// Refuses a layer that is in only one phase, since both phases have to be the same net. Data
// layers, losses and Dropout, which does nothing in tests, may be in one phase.
void check_phases(FoundLayer& layer) {
  if (layer.fields.has("include") && layer.fields.has("exclude"))
    layer.fields.refuse("exclude", "include and exclude", "give one of them", 0);
  if (layer.trains == layer.tests || layer.type->kind != Kind::layer) return;
  if (layer.trains && layer.type->name == "Dropout") return;
  layer.fields.refuse(layer.fields.has("include") ? "include" : "exclude",
                      fmt::format("is only in the {} phase", layer.trains ? "TRAIN" : "TEST"),
                      "a net is the same in training and in tests but for data and losses", 0);
}

void check_blobs(const FoundLayer& found, CaffeNet& to) {
  CaffeFields fields = found.fields;
  const CaffeType& type = *found.type;
  const int bottoms = fields.count("bottom"), tops = fields.count("top");
  const bool reads = type.kind != Kind::data;
  if (reads && (bottoms < type.bottoms || bottoms > type.most_bottoms))
    fields.refuse("bottom", fmt::format("has {} bottom{}", bottoms, bottoms == 1 ? "" : "s"),
                  type.bottoms == type.most_bottoms
                      ? fmt::format("{} has {}", type.name, type.bottoms)
                      : fmt::format("{} has {} or more", type.name, type.bottoms),
                  0);
  if (!reads && bottoms > 0) fields.refuse("bottom", "has a bottom", "data have none", 0);
  if (type.kind == Kind::layer && (tops < 1 || tops > type.most_tops))
    fields.refuse("top", fmt::format("has {} top{}", tops, tops == 1 ? "" : "s"),
                  fmt::format("{} has 1{}", type.name, type.most_tops == 1 ? "" : " or more"), 0);
  for (const std::string_view list : {"bottom", "top"})
    for (int i = 0; i < fields.count(list); ++i)
      if (const std::string name = fields.text(list, i);
          name.empty() || name.find('\n') != std::string::npos)
        fields.refuse(list, fmt::format("{} is no name of a blob", shown_name(name)),
                      "names are words", i);
  if (fields.failed()) return;
  const bool measures = type.kind == Kind::measure;
  for (int i = 0; i < bottoms; ++i) {
    const std::string name = fields.text("bottom", i);
    const bool is_label = to.labels.contains(name),
               is_beside = measures && (to.losses.contains(name) || to.beside.contains(name));
    if (!to.made.contains(name) && !is_label && name != to.image && !is_beside)
      fields.refuse("bottom", fmt::format("no layer above makes {}", shown_name(name)), "", i);
    if (measures) continue;
    if (is_label && (type.kind == Kind::layer || i == 0))
      fields.refuse("bottom", fmt::format("reads the labels {}", shown_name(name)),
                    "they are for losses alone", i);
    if (to.flat.contains(name) && !type.takes_vectors)
      fields.refuse("bottom", fmt::format("reads {}, which was flattened", shown_name(name)),
                    "only InnerProduct, activations, Dropout and Softmax do", i);
  }
  for (int i = 0; i < tops && type.kind == Kind::layer; ++i) {
    const std::string name = fields.text("top", i);
    const bool in_place = bottoms > 0 && fields.text("bottom", 0) == name;
    if (!in_place && (!to.made.insert(name).second || name == to.image || to.labels.contains(name)))
      fields.refuse("top", fmt::format("a layer above makes {}, too", shown_name(name)),
                    "give it another name", i);
    if (in_place && (to.targets.contains(name) || (to.loss && name == to.loss_input) ||
                     (to.probabilities && name == to.probabilities->inputs.front())))
      fields.refuse("top",
                    fmt::format("replaces {}, which {} reads", shown_name(name),
                                to.loss ? "the loss" : "Softmax"),
                    "give it another name, or move it above", i);
    to.made.insert(name);
  }
  // Labels get no gradient in any case.
  if (fields.count("propagate_down") > 0)
    for (int i = 0; i < fields.count("propagate_down"); ++i)
      if (!fields.flag("propagate_down", i) && !(type.targets && i == 1) &&
          !(i < bottoms && to.labels.contains(fields.text("bottom", i))))
        fields.refuse("propagate_down", "propagate_down: false is not supported",
                      "set lr_mult: 0 in the layers below", i);
  const bool learns = type.kind == Kind::loss && type.bottoms == 2;  // from labels
  if (!learns && fields.has("loss_weight"))
    fields.refuse("loss_weight", "a loss_weight is not supported here", "only losses have one", 0);
}

CaffeLayer opened(const FoundLayer& found, CaffeNet& to) {
  CaffeFields fields = found.fields;
  const CaffeType& type = *found.type;
  std::vector<std::string_view> known{type.param, "transform_param", "softmax_param"};
  if (const std::string other = fields.other_field("_param", known); !other.empty())
    log::warn_once("{}: {} has no effect in a {} layer", fields.where(other), other, type.name);
  if (!type.transforms && fields.has("transform_param"))
    fields.refuse("transform_param", fmt::format("{} layers have no transform_param", type.name),
                  "Caffe ignores it: it is for Data, ImageData and MemoryData");
  return {.fields = fields,
          .own = fields.has_field(type.param) ? fields.nested(type.param) : fields,
          .to = to,
          .description = {},
          .tests = found.tests};
}

void read_layer(const FoundLayer& found, CaffeNet& to) {
  const CaffeType& type = *found.type;
  check_blobs(found, to);
  if (found.fields.failed()) return;
  CaffeLayer layer = opened(found, to);
  CaffeFields& fields = layer.fields;
  LayerDescription& description = layer.description;
  description.name = fields.text("name");
  description.where = fields.where();
  for (int i = 0; i < fields.count("bottom"); ++i)
    description.inputs.push_back(fields.text("bottom", i));
  if (fields.count("top") > 0) description.outputs = {fields.text("top", 0)};
  if (fields.has("bottom")) description.places["inputs"] = {fields.where("bottom", 0), "bottom"};
  const bool was_flat = fields.count("bottom") > 0 && to.flat.contains(fields.text("bottom", 0));
  type.read(layer);
  if (type.kind == Kind::data)
    to.remarks.insert(to.remarks.end(), description.remarks.begin(), description.remarks.end());
  if (type.kind != Kind::layer || fields.failed()) return;
  const std::string top = fields.text("top", 0);
  if (type.name == "InnerProduct") to.flat.erase(top);
  if (was_flat && type.name != "InnerProduct") to.flat.insert(top);
}

// Notes output blobs of the layer that are not an input of the net's other layers: losses, measures
// and test data.
void note_blobs(const FoundLayer& found, CaffeNet& to) {
  const CaffeFields& fields = found.fields;
  const Kind kind = found.type->kind;
  const bool is_other_data = kind == Kind::data && !found.trains;
  const bool is_shown = found.type->name == "Softmax" || found.type->name == "Accuracy";
  if (is_shown && found.tests && fields.count("bottom") > 0)
    to.tested.emplace_back(fields.text("bottom", 0), fields.where());
  for (int i = 0; i < fields.count("top"); ++i) {
    if (kind == Kind::loss && fields.count("bottom") > 0)
      to.losses.emplace(fields.text("top", i), fields.text("bottom", 0));
    if (kind == Kind::measure || is_other_data) to.beside.insert(fields.text("top", i));
  }
}

// Refuses tests of another blob than the net's own loss reads, if no loss is in the TEST phase.
Status check_tested(const CaffeNet& to) {
  if (!to.loss || to.loss_tests) return {};
  for (const auto& [blob, place] : to.tested) {
    const auto loss = to.losses.find(blob);
    if (const std::string& read = loss == to.losses.end() ? blob : loss->second;
        read != to.loss_input)
      return Error{ErrorKind::usage, place,
                   fmt::format("reads {}, but the last loss reads {}", shown_name(read),
                               shown_name(to.loss_input)),
                   "put the loss that tests use into the TEST phase, too"};
  }
  return {};
}

// Makes the loss the last layer, wherever the file has it. A net without a loss ends with Softmax
// or another layer.
Status end_net(CaffeFields& fields, CaffeNet& to) {
  auto& layers = to.net.layers;
  OMNI_CHECK(check_tested(to));
  if (to.probabilities && to.loss && to.probabilities->inputs.front() != to.loss_input)
    return Error{ErrorKind::usage, to.probabilities->where, "reads another blob than the loss",
                 "a net has one output"};
  if (to.loss)
    layers.push_back(*std::move(to.loss));
  else if (to.probabilities)
    layers.push_back(*std::move(to.probabilities));
  if (to.image.empty())
    return Error{ErrorKind::usage, fields.where(), "no layer of data, and no input",
                 "add a layer of type Data or Input"};
  if (layers.empty())
    return Error{ErrorKind::usage, fields.where(), "no layer but data",
                 "docs/caffe.md lists what is read"};
  return check_caffe_measures(to);
}

// Sets the number of classes, which is the number of outputs of the InnerProduct that the loss
// reads.
Status set_caffe_classes(TrainableNet& net, int classes) {
  for (const LayerDescription& loss : net.layers) {
    const bool is_last = &loss == &net.layers.back();
    if (!is_last && (!loss.auxiliary || loss.type == "target")) continue;
    const auto scores = std::ranges::find_if(net.layers, [&](const LayerDescription& each) {
      return each.type == "connected" && each.outputs == loss.inputs;
    });
    if ((loss.type != "softmax" && loss.type != "cost") || scores == net.layers.end())
      return Error{ErrorKind::usage, loss.where,
                   "--classes: this layer decides no number of outputs",
                   "the loss has to read an InnerProduct"};
    std::get<ConnectedOptions>(scores->options).outputs = classes;
  }
  net.statements += fmt::format("classes {};", classes);
  return {};
}

Result<TrainableNet> describe_caffe_net(CaffeText& text, CaffeText* solver,
                                        const ReadOptions& how) {
  Status status;
  CaffeFields fields(text, status);
  TrainableNet net;
  net.name = std::filesystem::path(text.file).stem().string();
  net.where = fmt::format("{}:1", text.file);
  net.title = fields.text("name");
  CaffeNet to{.net = net};
  std::optional<CaffeFields> solver_fields;
  if (solver != nullptr) {
    OMNI_CHECK(solver->unknown);
    solver_fields.emplace(*solver, status);
  }
  auto found = find_layers(
      fields, read_caffe_states(fields, solver_fields ? &*solver_fields : nullptr, how), net);
  OMNI_CHECK(status);
  if (!found) return std::move(found.error());
  OMNI_CHECK(text.unknown);
  fields.check();
  std::string data;
  for (const FoundLayer& layer : *found) note_caffe_values(layer.fields, *layer.type, to);
  read_caffe_inputs(fields, to);
  for (const FoundLayer& layer : *found)
    for (int i = 0; i < layer.fields.count("bottom"); ++i)
      ++to.reads[layer.fields.text("bottom", i)];
  for (FoundLayer& layer : *found) {
    check_phases(layer);
    if (fields.failed()) break;
    note_blobs(layer, to);
    if (!layer.trains && layer.type->kind != Kind::measure) continue;
    const bool is_data = layer.type->kind == Kind::data;
    CaffeNet& input = is_data ? input_of_caffe_data(layer.fields, to) : to;
    read_layer(layer, input);
    if (is_data && !fields.failed()) note_caffe_input(layer.fields, input, to);
    const bool is_part = layer.type->kind == Kind::layer || layer.type->kind == Kind::loss;
    if (layer.type->kind != Kind::measure)
      (is_part ? net.statements : data) += layer.fields.normalised({"include", "exclude"}) + ";";
  }
  for (const FoundLayer& layer : *found) {
    if (layer.type->kind != Kind::data || !layer.tests || fields.failed()) continue;
    CaffeNet* const input = tested_caffe_input(layer.fields, to);
    if (input == nullptr) break;
    auto& files = input->net.files;
    if (layer.trains && files.phases == files.training)
      files.phases = files.same;
    else if (!layer.trains)
      check_caffe_test_data(opened(layer, *input));
    if (layer.trains && input->transform.mirror)
      to.remarks.push_back(
          fmt::format("{}: mirrors images in training alone, although it is in both phases",
                      layer.fields.where()));
  }
  OMNI_CHECK(status);
  OMNI_CHECK(end_net(fields, to));
  std::vector<std::string> settings = how.settings;
  OMNI_CHECK(finish_caffe_inputs(to, how.data, settings));
  if (solver_fields) {
    net.designed_length = length_of_caffe_solver(*solver);
    OMNI_CHECK(set_caffe_solver(*solver, settings));
    solver_fields->check();
  } else if (!settings.empty()) {
    return Error{ErrorKind::usage, "--set " + settings.front(), "is not known without a solver",
                 "give --solver, or one of height, width and channels"};
  }
  OMNI_CHECK(read_caffe_solver(solver_fields ? &*solver_fields : nullptr, how, net));
  OMNI_CHECK(status);
  if (how.classes > 0) OMNI_CHECK(set_caffe_classes(net, how.classes));
  if (solver == nullptr)
    to.remarks.push_back(fmt::format(
        "{}: is trained with the learning rate {}, momentum {} and decay {} (--solver FILE has "
        "others)",
        text.file, net.solver.learning_rate, net.solver.momentum, net.solver.decay));
  auto& remarks = net.layers.front().remarks;
  remarks.insert(remarks.end(), to.remarks.begin(), to.remarks.end());
  text.tell_in_vain();
  if (solver != nullptr) solver->tell_in_vain();
  net.text = net.statements + data + (solver_fields ? solver_fields->normalised({"net"}) : "");
  return net;
}

Result<std::string> read_text(const std::filesystem::path& path) {
  auto text = read_file(path, kMostTextBytes);
  if (!text) text.error().kind = ErrorKind::usage;  // as of a net that cannot be read
  return text;
}

}  // namespace

Result<TrainableNet> parse_caffe_net(CaffeFile net, CaffeFile solver, const ReadOptions& how) {
  OMNI_TRY(CaffeText text,
           parse_caffe_text(net.text, net.name, std::make_unique<caffe::NetParameter>()));
  if (solver.name.empty()) return describe_caffe_net(text, nullptr, how);
  OMNI_TRY(CaffeText options,
           parse_caffe_text(solver.text, solver.name, std::make_unique<caffe::SolverParameter>()));
  return describe_caffe_net(text, &options, how);
}

Result<TrainableNet> read_caffe_net(const std::filesystem::path& net,
                                    const std::filesystem::path& solver, const ReadOptions& how) {
  OMNI_TRY(const std::string text, read_text(net));
  std::string solver_text;
  if (!solver.empty()) {
    OMNI_TRY(solver_text, read_text(solver));
  }
  return parse_caffe_net({text, net.string()}, {solver_text, solver.string()}, how);
}

Result<std::filesystem::path> net_of_caffe_solver(const std::filesystem::path& solver) {
  OMNI_TRY(const std::string text, read_text(solver));
  OMNI_TRY(CaffeText options,
           parse_caffe_text(text, solver.string(), std::make_unique<caffe::SolverParameter>()));
  Status status;
  CaffeFields fields(options, status);
  if (!fields.has("net")) fields.check();  // which may say more
  OMNI_CHECK(status);
  const std::filesystem::path net = fields.text("net");
  if (net.empty())
    return Error{ErrorKind::usage, fields.where("net"), "names no net",
                 "add net: \"FILE\" to the solver, or give --net"};
  std::error_code ignored;
  for (const std::filesystem::path& path : {net, solver.parent_path() / net})
    if (std::filesystem::is_regular_file(path, ignored)) return path;
  return Error{ErrorKind::usage, fields.where("net"),
               fmt::format("no such net: {}", shown_name(net.string())),
               "its path is relative to the working directory, or to the solver's folder"};
}

}  // namespace omni
