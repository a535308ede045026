// omni-run layers lists the sections and keys of nets, from the declarations of the keys.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "apps/omni-run/commands.hpp"
#include "layers/formats/caffe/caffe.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "layers/formats/darknet/layer_sections.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"

namespace omni {
namespace {

nlohmann::ordered_json keys_json(std::span<const Key> keys) {
  auto list = nlohmann::ordered_json::array();
  for (const Key& key : keys)
    list.push_back({{"key", key.name},
                    {"default", key.fallback},
                    {"help", key.help},
                    {"ignored", key.effect == Effect::none},
                    {"refused", key.effect == Effect::refused}});
  return list;
}

void print_keys(std::span<const Key> keys) {
  std::vector<std::string_view> ignored, refused;
  for (const Key& key : keys) {
    if (key.effect == Effect::none)
      ignored.push_back(key.name);
    else if (key.effect == Effect::refused)
      refused.push_back(key.name);
    else
      log::result("    {:<18} {:<11} {}\n", key.name, key.fallback, key.help);
  }
  if (!refused.empty()) log::result("    only the default: {}\n", fmt::join(refused, " "));
  if (!ignored.empty()) log::result("    without effect: {}\n", fmt::join(ignored, " "));
}

// Returns a type's keys without the common ones, which stand at the end and are printed once.
std::span<const Key> own_keys(const DarknetType& type) {
  return std::span(type.keys).first(type.keys.size() - common_layer_keys().size());
}

void print_caffe_types(bool json) {
  auto matrix = nlohmann::ordered_json::array();
  std::vector<std::string> missing;
  for (const CaffeTypeRow& type : caffe_type_matrix()) {
    auto fields = nlohmann::ordered_json::array();
    for (const CaffeFieldRow& field : type.fields)
      fields.push_back({{"field", field.name},
                        {"default", field.fallback},
                        {"refused", field.refused},
                        {"ignored", field.in_vain}});
    matrix.push_back({{"type", type.name},
                      {"old_type", type.old_name},
                      {"missing", type.missing},
                      {"parameter", type.param},
                      {"fields", fields}});
    if (!type.missing.empty()) missing.push_back(type.name);
    if (json || !type.missing.empty()) continue;
    log::result("{}{}{}\n", type.name, type.old_name.empty() ? "" : ", in layers ", type.old_name);
    for (const CaffeFieldRow& field : type.fields)
      log::result("    {:<24} {:<11} {}{}\n", field.name, field.fallback,
                  field.refused.empty() ? field.in_vain.empty() ? "" : "without effect: "
                                        : "only the default: ",
                  field.refused.empty() ? field.in_vain : field.refused);
  }
  if (json)
    log::result("{}\n", json_text(matrix, 2));
  else
    log::result("\nnot read: {}\n", fmt::join(missing, " "));
}

}  // namespace

Status layers_command(const LayersArguments& arguments) {
  if (arguments.caffe) return print_caffe_types(arguments.common.json), Status();
  if (arguments.common.json) {
    nlohmann::ordered_json matrix{{"net", keys_json(net_keys())},
                                  {"common", keys_json(common_layer_keys())},
                                  {"layers", nlohmann::ordered_json::array()}};
    for (const DarknetType& type : darknet_types())
      matrix["layers"].push_back({{"name", type.name},
                                  {"aliases", type.aliases},
                                  {"summary", type.summary},
                                  {"keys", keys_json(own_keys(type))}});
    log::result("{}\n", json_text(matrix, 2));
    return {};
  }
  log::result("[net] (also [network]): key, default, meaning\n");
  print_keys(net_keys());
  for (const DarknetType& type : darknet_types()) {
    log::result("\n[{}]{}{}: {}\n", type.name, type.aliases.empty() ? "" : " also ",
                fmt::join(type.aliases, " "), type.summary);
    print_keys(own_keys(type));
  }
  log::result("\nKeys of every layer\n");
  print_keys(common_layer_keys());
  return {};
}

}  // namespace omni
