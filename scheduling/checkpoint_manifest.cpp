// JSON for people and other tools; the checksum in the last line for the machine.
#include "scheduling/checkpoint_manifest.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/checksum.hpp"

namespace omni {
namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 1;

std::string last_line(std::string_view text_before) {
  return fmt::format(",\n  \"manifest_xxh3_64\": \"{}\"\n}}\n", checksum_of(text_before));
}

// Typed lookups that cannot throw: a manifest of another version may hold anything.
std::optional<std::uint64_t> number(const ordered_json& object, std::string_view key) {
  const auto place = object.find(key);
  if (place == object.end() || !place->is_number_unsigned()) return std::nullopt;
  return place->get<std::uint64_t>();
}
std::optional<std::string> text(const ordered_json& object, std::string_view key) {
  const auto place = object.find(key);
  if (place == object.end() || !place->is_string()) return std::nullopt;
  return place->get<std::string>();
}

}  // namespace

std::string manifest_text(const CheckpointManifest& manifest) {
  const ordered_json json = {
      {"format", kFormat},
      {"step", manifest.step},
      {"program", manifest.program},
      {"cfg_hash", manifest.cfg_hash},
      {"files",
       {{{"name", kArraysName},
         {"bytes", manifest.arrays_bytes},
         {"xxh3_64", checksum_text(manifest.arrays_checksum)}}}},
  };
  std::string text = json.dump(2, ' ', false, ordered_json::error_handler_t::replace);
  text.resize(text.size() - 2);  // "\n}" comes back with the last line
  return text + last_line(text);
}

Result<CheckpointManifest> parse_manifest(std::string_view contents, const std::string& where) {
  const auto refuse = [&](std::string what) {
    return Error{ErrorKind::data, where, std::move(what), ""};
  };
  const std::size_t tail_size = last_line("").size();
  if (contents.size() < tail_size) return refuse("the manifest is truncated");
  const std::string_view body = contents.substr(0, contents.size() - tail_size);
  if (contents.substr(body.size()) != last_line(body))
    return refuse("the manifest is damaged: its checksum differs");
  const ordered_json json = ordered_json::parse(contents, nullptr, false);
  if (!json.is_object()) return refuse("the manifest is not a JSON object");
  const auto format = number(json, "format");
  if (format != kFormat)
    return refuse(fmt::format("the manifest has format {}, this program reads {}",
                              format.value_or(0), kFormat));

  const auto files = json.find("files");
  if (files == json.end() || !files->is_array() || files->size() != 1 ||
      text(files->front(), "name") != kArraysName)
    return refuse(fmt::format("the manifest does not list exactly {}", kArraysName));
  const auto step = number(json, "step");
  const auto bytes = number(files->front(), "bytes");
  const auto checksum = text(files->front(), "xxh3_64");
  const auto cfg_hash = text(json, "cfg_hash");
  const auto program = text(json, "program");
  if (!step || !bytes || !checksum || !cfg_hash || !program)
    return refuse("the manifest lacks step, program, cfg_hash, bytes or xxh3_64");
  return CheckpointManifest{*step, *cfg_hash, *program, *bytes,
                            std::strtoull(checksum->c_str(), nullptr, 16)};
}

}  // namespace omni
