// This file changes the number of classes of a described net. For that it sets the number of
// filters or neurons of the last layer that has some.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "layers/formats/darknet/layer_sections.hpp"
#include "layers/net.hpp"

namespace omni {
namespace {

bool declares(const DarknetType& type, std::string_view key) {
  return std::ranges::find(type.keys, key, &Key::name) != type.keys.end();
}

// Sets a key's value in the section, as if the file had this value. If the key is on several lines,
// it changes the line that counts.
void set(Section& section, std::string_view key, std::string value) {
  const auto last =
      std::ranges::find(section.options.rbegin(), section.options.rend(), key, &Option::key);
  if (last == section.options.rend())
    section.options.push_back({std::string(key), std::move(value), kCommandLine});
  else if (last->value != value)
    *last = {last->key, std::move(value), kCommandLine};
}

}  // namespace

Result<ClassesKey> set_classes(std::vector<Section>& layers, int classes) {
  const std::string option = fmt::format("--classes {}", classes);
  for (std::size_t i = layers.size(); i-- > 0;) {
    Section& section = layers[i];
    OMNI_TRY(const DarknetType* type, find_darknet_type(section));
    if (declares(*type, "layers") || declares(*type, "from"))
      return Error{ErrorKind::usage, section.where(),
                   fmt::format("{}: the outputs of this [{}] come from several layers", option,
                               section.type),
                   "put a layer with so many outputs behind it"};
    const std::string_view key = declares(*type, "output")    ? "output"
                                 : declares(*type, "filters") ? "filters"
                                                              : "";
    if (key.empty()) continue;
    set(section, key, std::to_string(classes));
    return ClassesKey{section.where(), key};
  }
  return Error{ErrorKind::usage, layers.back().where(),
               option + ": no layer says how many outputs the net has",
               "put [connected] with so many outputs before the loss"};
}

Status check_classes(const NetDescription& net, int classes, const ClassesKey& set) {
  OMNI_TRY(const auto built, Net::build(net, {.training = false, .images = 1, .slice = 1}));
  if (built->classes() == classes) return {};
  return Error{ErrorKind::usage, set.where,
               fmt::format("--classes {}: with {}={} the net has {} outputs", classes, set.key,
                           classes, built->classes()),
               "put [avgpool], or [connected] with so many outputs, behind it"};
}

}  // namespace omni
