#include "layers/formats/darknet/layer_sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/log.hpp"
#include "runtime/nearest.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// Every Darknet layer has these keys. The ignored ones have no meaning in classification.
constexpr std::array<Key, 6> kCommonKeys{{
    {"learning_rate", "1", "multiplies the net's learning rate for this layer"},
    {"stopbackward", "0", "1: this layer and all before it stay as they are"},
    {"dontload", "0",
     "1: keep the initial values when weights are loaded; the file has some all the same, "
     "but need not at the end of the net"},
    {"dontsave", "0", "1: initial values are not overwritten in saved .weights", Effect::none},
    {"dontloadscales", "0", "1: keep the initial batch-norm scales when weights are loaded",
     Effect::none},
    {"numload", "0", "how many filters to load", Effect::none},
}};

constexpr std::string_view kCommonKeysInVain =
    "onlyforward=0 truth=0 smooth=0 noweights=0 train_only_bn=0 burnin_update=0 "
    "dont_update=0 clip=0 stream=-1 wait_stream=-1";

// These sections of Darknet are refused, because they are not for classification.
constexpr std::array kForeign{
    "yolo",        "region",        "detection", "iseg",           "rnn",      "crnn",   "gru",
    "lstm",        "conv_lstm",     "history",   "gaussian_yolo",  "sam",      "empty",  "silence",
    "contrastive", "local_avgpool", "local_avg", "scale_channels", "implicit", "reorg3d"};

std::vector<DarknetType> all_types() {
  std::vector<DarknetType> types = darknet_weighted_types();
  std::ranges::copy(darknet_other_types(), std::back_inserter(types));
  std::ranges::sort(types, {}, &DarknetType::name);
  for (DarknetType& type : types) {
    type.keys = with_keys_in_vain(type.keys, type.in_vain);
    type.keys.insert(type.keys.end(), common_layer_keys().begin(), common_layer_keys().end());
  }
  return types;
}

// Returns whether a [cost] section is superfluous. Old cfg files end with [softmax] and then
// [cost]; softmax computes the loss itself.
bool is_spare_cost(const Section* before, const Section& section) {
  if (section.type != "cost" || before == nullptr ||
      (*find_darknet_type(*before))->name != "softmax")
    return false;
  const Option* noloss = before->find("noloss");
  return noloss == nullptr || noloss->value != "1";
}

// Reads the options that all layers have.
void read_common(DarknetLayerReader& reader) {
  LayerDescription& layer = reader.layer;
  const float rate = reader.options.real("learning_rate", 1, 0);
  if (rate != 1)
    for (const ParamRole role : {ParamRole::weights, ParamRole::bias, ParamRole::scale,
                                 ParamRole::mean, ParamRole::variance})
      layer.params[role].rate = rate;
  layer.load = !reader.options.flag("dontload", false);
  layer.stops_backward = reader.options.flag("stopbackward", false);
  reader.name("stops_backward", "stopbackward");
  layer.inputs = {reader.index == 0 ? "data" : std::to_string(reader.index - 1)};
  layer.outputs = {std::to_string(reader.index)};
}

}  // namespace

Activation DarknetLayerReader::activation(std::string_view fallback) {
  options.refuse_values(
      "activation",
      {"normalize_channels", "normalize_channels_softmax", "normalize_channels_softmax_maxval"},
      "it mixes channels; only element-wise ones are");
  return static_cast<Activation>(options.choice("activation", fallback, kActivationNames));
}

void DarknetLayerReader::name(std::string_view option, std::string_view key, const char* note) {
  if (options.has(key))
    layer.places[std::string(option)] = {options.where(key), std::string(key), note};
}

std::string DarknetLayerReader::earlier(std::string_view key, int reference) {
  const int target = reference < 0 ? index + reference : reference;
  if (target < 0 || target >= index)
    options.refuse(key, fmt::format("{} = {} does not name an earlier layer", key, reference),
                   index == 0 ? "there is none yet"
                              : fmt::format("layers 0 to {}, or -1 to -{}", index - 1, index));
  return std::to_string(target);
}

void DarknetLayerReader::remark(std::string_view key, std::string_view text) {
  layer.remarks.push_back(
      key.empty() ? fmt::format("{}: {}", layer.where, text)
                  : fmt::format("{}: {} {}", options.where(key), shown_name(key), text));
}

const std::vector<DarknetType>& darknet_types() {
  static const std::vector<DarknetType> types = all_types();
  return types;
}

std::span<const Key> common_layer_keys() {
  static const std::vector<Key> keys = with_keys_in_vain(kCommonKeys, kCommonKeysInVain);
  return keys;
}

Result<const DarknetType*> find_darknet_type(const Section& section) {
  std::vector<std::string_view> names;
  for (const DarknetType& type : darknet_types()) {
    names.push_back(type.name);
    names.insert(names.end(), type.aliases.begin(), type.aliases.end());
    if (type.name == section.type ||
        std::ranges::find(type.aliases, section.type) != type.aliases.end())
      return &type;
  }
  if (std::ranges::find(kForeign, section.type) != kForeign.end())
    return Error{ErrorKind::usage, section.where(),
                 fmt::format("section [{}] is not supported", section.type),
                 "omni-run layers lists what is"};
  const std::string_view close = nearest(section.type, names);
  return Error{ErrorKind::usage, section.where(), fmt::format("unknown section [{}]", section.type),
               close.empty() ? "omni-run layers lists the known ones"
                             : fmt::format("did you mean [{}]?", close)};
}

Result<std::vector<LayerDescription>> describe_layers(const std::vector<Section>& sections,
                                                      float smoothing, bool strict,
                                                      std::vector<InputPart>& inputs) {
  std::vector<LayerDescription> layers;
  const Section* before = nullptr;
  for (const Section& section : sections) {
    OMNI_TRY(const DarknetType* type, find_darknet_type(section));
    OMNI_CHECK(check_keys(section, type->keys, strict));
    if (is_spare_cost(before, section)) {
      log::warn_once(
          "{}: [cost] after [softmax] is ignored (softmax computes cross-entropy itself)",
          section.where());
      continue;
    }
    before = &section;
    LayerDescription& layer = layers.emplace_back();
    layer.type = type->name;
    layer.where = section.where();
    for (const Option& option : section.options)
      layer.places[option.key] = {section.where(option), option.key};
    OptionReader options(section, type->keys);
    DarknetLayerReader reader{options, layer, static_cast<int>(layers.size()) - 1, smoothing,
                              inputs};
    read_common(reader);
    if (type->read != nullptr) type->read(reader);
    OMNI_CHECK(options.status());
  }
  constexpr std::array kLosses{"softmax", "logistic", "cost", "target"};
  for (std::size_t i = 0; i + 1 < layers.size(); ++i)
    layers[i].auxiliary = layers[i].places.contains("loss_weight") &&
                          std::ranges::find(kLosses, layers[i].type) != kLosses.end();
  return layers;
}

}  // namespace omni
