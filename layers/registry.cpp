#include "layers/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/nearest.hpp"

namespace omni {
namespace {

// Keys of every Darknet layer. The ignored ones have no meaning when classifying.
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

// Sections of Darknet's other trades, and why they are refused.
constexpr std::array kForeign{
    "yolo",        "region",        "detection", "iseg",           "rnn",      "crnn",   "gru",
    "lstm",        "conv_lstm",     "history",   "gaussian_yolo",  "sam",      "empty",  "silence",
    "contrastive", "local_avgpool", "local_avg", "scale_channels", "implicit", "reorg3d"};

std::vector<LayerType>& registered() {
  static std::vector<LayerType> types;
  return types;
}

}  // namespace

std::span<const Key> common_layer_keys() {
  static const std::vector<Key> keys = with_keys_in_vain(kCommonKeys, kCommonKeysInVain);
  return keys;
}

LayerRegistration::LayerRegistration(LayerType type) {
  type.keys = with_keys_in_vain(type.keys, type.in_vain);
  const std::span<const Key> common = common_layer_keys();
  type.keys.insert(type.keys.end(), common.begin(), common.end());
  auto& types = registered();
  const auto place = std::lower_bound(
      types.begin(), types.end(), type.name,
      [](const LayerType& each, std::string_view name) { return each.name < name; });
  types.insert(place, std::move(type));
}

const std::vector<LayerType>& layer_types() { return registered(); }

Result<const LayerType*> find_layer_type(const Section& section) {
  std::vector<std::string_view> names;
  for (const LayerType& type : layer_types()) {
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

}  // namespace omni
