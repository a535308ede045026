// This file changes the number of classes of a described net. For each loss it sets the number of
// filters or neurons of the last layer before it that has some.
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

// Sets the number of the last layer before number `end` that has one.
Result<ClassesKey> set_outputs(std::vector<Section>& layers, std::size_t end, int classes) {
  const std::string option = fmt::format("--classes {}", classes);
  for (std::size_t i = end; i-- > 0;) {
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
  return Error{ErrorKind::usage, layers[end - 1].where(),
               option + ": no layer says how many outputs the net has",
               "put [connected] with so many outputs before the loss"};
}

}  // namespace

Result<ClassesKey> set_classes(std::vector<Section>& layers, int classes) {
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    OMNI_TRY(const DarknetType* type, find_darknet_type(layers[i]));
    const auto& options = layers[i].options;
    if (layers[i].type != "target" && declares(*type, "loss_weight") &&
        std::ranges::find(options, "loss_weight", &Option::key) != options.end())
      OMNI_CHECK(set_outputs(layers, i + 1, classes));
  }
  return set_outputs(layers, layers.size(), classes);
}

Status check_classes(const NetDescription& net, int classes, const ClassesKey& set) {
  OMNI_TRY(const auto built, Net::build(net, {.training = false, .images = 1, .slice = 1}));
  for (const LabelLimit& limit : built->label_limits())
    if (limit.classes != classes)
      return Error{
          ErrorKind::usage, limit.where.empty() ? set.where : limit.where,
          limit.where.empty()
              ? fmt::format("--classes {}: with {}={} the net has {} outputs", classes, set.key,
                            classes, limit.classes)
              : fmt::format("--classes {}: this loss has {} outputs", classes, limit.classes),
          "put [avgpool], or [connected] with so many outputs, behind it"};
  return {};
}

}  // namespace omni
