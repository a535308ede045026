// This file finds the inputs of a net: layers of data, and the field `input` of the net.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "layers/formats/caffe/caffe_layers.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// Returns where the next input of the net is described: in `to` the first, others on their own.
CaffeNet& next_input(CaffeNet& to) {
  if (to.image.empty()) return to;
  CaffeInput& other = *to.others.emplace_back(std::make_shared<CaffeInput>());
  other.net.where = to.net.where;
  return other.to;
}

void name_input(CaffeNet& input, const std::string& blob, std::string place) {
  input.image = blob;
  input.image_place = std::move(place);
  input.net.inputs = {blob};
  input.net.files.phases = input.net.files.same;
  input.net.files.only_shapes = true;
}

}  // namespace

void read_caffe_inputs(CaffeFields& net, CaffeNet& to) {
  const int inputs = net.count("input");
  const bool has_shapes = net.has("input_shape");
  if (inputs > 0 && !has_shapes && net.count("input_dim") != 4 * inputs)
    net.refuse("input",
               fmt::format("{} inputs with {} values of input_dim", inputs, net.count("input_dim")),
               "each has 4: number, channels, height and width", 0);
  for (int i = 0; i < inputs && !net.failed(); ++i) {
    const std::string blob = net.text("input", i);
    if (i > 0 && !to.has_values(blob)) {
      to.labels.emplace(blob, 0);
      continue;
    }
    CaffeNet& input = next_input(to);
    name_input(input, blob, net.where("input", i));
    if (i > 0) to.made.insert(blob);
    if (!has_shapes) {
      set_caffe_input(input, net, "input_dim", 4, 4 * i);
    } else if (i >= net.count("input_shape")) {
      net.refuse("input", fmt::format("{} has no input_shape", shown_name(blob)),
                 "each input has one", i);
    } else {
      CaffeFields shape = net.nested("input_shape", i);
      set_caffe_input(input, shape, "dim", shape.count("dim"));
    }
  }
}

// The second bottoms of losses and of Accuracy are labels, unless the loss takes targets.
void note_caffe_values(const CaffeFields& layer, const CaffeType& type, CaffeNet& to) {
  const bool has_labels = type.kind != CaffeType::Kind::layer && type.bottoms == 2;
  for (int i = 0; i < layer.count("bottom"); ++i)
    if (has_labels && i == 1 && !type.targets)
      to.read_as_labels.insert(layer.text("bottom", i));
    else if (type.kind != CaffeType::Kind::measure)
      to.read_as_values.insert(layer.text("bottom", i));
}

CaffeNet& input_of_caffe_data(const CaffeFields& layer, CaffeNet& to) {
  bool has_values = to.image.empty() || layer.text_of_type() != "Input";
  for (int i = 0; i < layer.count("top"); ++i)
    has_values = has_values || to.has_values(layer.text("top", i));
  return has_values ? next_input(to) : to;
}

void note_caffe_input(CaffeFields fields, CaffeNet& input, CaffeNet& to) {
  const bool is_first = &input == &to;
  const std::size_t number = is_first ? 0 : to.others.size();
  if (!is_first && (input.image == to.image || to.labels.contains(input.image) ||
                    !to.made.insert(input.image).second))
    fields.refuse("top", fmt::format("a layer above makes {}, too", shown_name(input.image)),
                  "give it another name", 0);
  for (const auto& [label, first] : input.labels)
    if (!is_first && !to.labels.emplace(label, number).second)
      fields.refuse("top", fmt::format("a layer above makes {}, too", shown_name(label)),
                    "give it another name", 1);
  if (fields.text_of_type() != "Input") return;
  CaffeFields own = fields.nested("input_param");
  for (int i = 1; i < fields.count("top") && !fields.failed(); ++i) {
    const std::string blob = fields.text("top", i);
    if (!to.has_values(blob)) continue;
    to.labels.erase(blob);
    if (own.count("shape") > 1 && i >= own.count("shape"))
      return fields.refuse("top", fmt::format("{} has no shape", shown_name(blob)),
                           "give one for all tops, or one for each", i);
    CaffeNet& more = next_input(to);
    name_input(more, blob, fields.where());
    if (!to.made.insert(blob).second)
      fields.refuse("top", fmt::format("a layer above makes {}, too", shown_name(blob)),
                    "give it another name", i);
    CaffeFields shape = own.nested("shape", own.count("shape") > 1 ? i : 0);
    set_caffe_input(more, shape, "dim", shape.count("dim"));
  }
}

CaffeNet* tested_caffe_input(CaffeFields layer, CaffeNet& to) {
  const std::string blob = layer.text("top", 0);
  if (to.others.empty() || blob == to.image) return &to;
  for (const auto& other : to.others)
    if (other->to.image == blob) return &other->to;
  layer.refuse("top", fmt::format("{} is no input in training", shown_name(blob)),
               "both phases have the same inputs", 0);
  return nullptr;
}

Status finish_caffe_inputs(CaffeNet& to, const std::string& data,
                           std::vector<std::string>& settings) {
  if (to.others.empty()) return finish_caffe_input(to, data, settings);
  std::vector<CaffeNet*> inputs{&to};
  for (const auto& other : to.others) inputs.push_back(&other->to);
  const auto source_of = [&](const std::string& name) {
    const std::size_t at = ("\n" + data).find("\n" + name + "=");
    if (at == data.npos) return std::string();
    const std::size_t first = at + name.size() + 1;
    return data.substr(first, std::min(data.find('\n', first), data.size()) - first);
  };
  std::vector<InputPart> parts;
  std::vector<LayerDescription> layers;
  std::string all;
  bool all_there = true;
  for (CaffeNet* input : inputs) {
    std::vector<std::string> none;
    OMNI_CHECK(finish_caffe_input(*input, source_of(input->image), input == &to ? settings : none));
    const TrainableNet& read = input->net;
    if (read.options.batch != to.net.options.batch)
      return Error{ErrorKind::usage, input->image_place,
                   fmt::format("has mini-batches of {}, but {} of {}", read.options.batch,
                               shown_name(to.image), to.net.options.batch),
                   "inputs have one batch_size"};
    layers.push_back({.type = "part",
                      .name = "",
                      .where = input->image_place,
                      .inputs = {},
                      .outputs = {input->image},
                      .options = PartOptions{.extent = read.options.input}});
    parts.push_back({.name = input->image,
                     .extent = read.options.input,
                     .augment = read.augment,
                     .labels = parts.size() == to.labels_of.value_or(0)});
    to.net.files_of_inputs.push_back(read.files);
    if (!to.net.absent) to.net.absent = read.absent;
    all_there = all_there && !read.data.empty();
    all += fmt::format("{}{}={}", all.empty() ? "" : "\n", input->image, read.data);
    if (input != &to)
      to.remarks.insert(to.remarks.end(), input->remarks.begin(), input->remarks.end());
  }
  to.net.data = all_there ? all : "";
  to.net.layers.insert(to.net.layers.begin(), layers.begin(), layers.end());
  return join_inputs(to.net, std::move(parts));
}

}  // namespace omni
