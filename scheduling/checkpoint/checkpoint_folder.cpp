// A checkpoint is only used if sizes and checksums agree with its manifest. The manifest is JSON,
// so that people and other tools can read it. Its last line has a checksum of the manifest itself.
#include "scheduling/checkpoint/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

#include "runtime/checksum.hpp"
#include "runtime/number_in.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::uint64_t kLargestManifest = 1 << 20;
constexpr std::string_view kPrefix = "save-", kMiddle = "-step-";

// No run saves so often. A folder with a larger number is not of a run; it is ignored, so that the
// next number does not overflow.
constexpr std::uint64_t kLargestNumber = 999'999'999'999;

std::optional<std::uint64_t> folder_number(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const std::size_t middle = name.find(kMiddle);
  if (middle == name.npos) return std::nullopt;
  const auto number = number_in<std::uint64_t>(name.substr(0, middle));
  const auto step = number_in<std::uint64_t>(name.substr(middle + kMiddle.size()));
  return step && number <= kLargestNumber ? number : std::nullopt;
}

Error damaged(const fs::path& path, std::string what) {
  return {ErrorKind::data, path.string(), std::move(what), ""};
}

constexpr int kFormat = 1;  // of manifests

std::string last_line(std::string_view text_before) {
  return fmt::format(",\n  \"manifest_xxh3_64\": \"{}\"\n}}\n", checksum_of(text_before));
}

// Returns the member `key` of an object; nothing: it is missing or has another type. A manifest of
// another version may hold anything.
template <class T>
std::optional<T> member(const ordered_json& object, std::string_view key) {
  constexpr bool kText = std::is_same_v<T, std::string>;
  const auto place = object.find(key);
  if (place == object.end() || !(kText ? place->is_string() : place->is_number_unsigned()))
    return std::nullopt;
  return place->get<T>();
}

struct OpenedArrays {
  CheckpointManifest manifest;
  fs::path path;
  InputFile file;
  Checksum checksum;

  Status read(std::span<std::byte> bytes) {
    OMNI_CHECK(file.read(bytes));
    checksum.update(bytes);
    return {};
  }
  // Returns an error if the checksum is wrong. Call check() after everything has been read.
  Status check() const {
    if (checksum.value() != manifest.arrays_checksum)
      return damaged(path, "damaged: its checksum is not the one in the manifest");
    return {};
  }
};

Result<OpenedArrays> open_arrays(const fs::path& folder, Links links) {
  std::error_code ignored;
  if (links == Links::refused && fs::is_symlink(folder, ignored))
    return damaged(folder, "is a link, not a checkpoint");
  const fs::path manifest_path = folder / kManifestName;
  OMNI_TRY(const std::string text, read_file(manifest_path, kLargestManifest, links));
  OMNI_TRY(CheckpointManifest manifest, parse_manifest(text, manifest_path.string()));
  const fs::path path = folder / kArraysName;
  OMNI_TRY(InputFile file, InputFile::open(path, links));
  if (file.size() != manifest.arrays_bytes)
    return damaged(path, fmt::format("has {} bytes, the manifest says {}", file.size(),
                                     manifest.arrays_bytes));
  return OpenedArrays{std::move(manifest), path, std::move(file), {}};
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
  text.resize(text.size() - 2);  // last_line() adds the "\n}" again
  return text + last_line(text);
}

Result<CheckpointManifest> parse_manifest(std::string_view contents, const std::string& where) {
  const auto refuse = [&](std::string what) { return damaged(where, std::move(what)); };
  const std::size_t tail_size = last_line("").size();
  if (contents.size() < tail_size) return refuse("the manifest is truncated");
  const std::string_view body = contents.substr(0, contents.size() - tail_size);
  if (contents.substr(body.size()) != last_line(body))
    return refuse("the manifest is damaged: its checksum differs");
  const ordered_json json = ordered_json::parse(contents, nullptr, false);
  if (!json.is_object()) return refuse("the manifest is not a JSON object");
  const auto format = member<std::uint64_t>(json, "format");
  if (format != kFormat)
    return refuse(fmt::format("the manifest has format {}, this program reads {}",
                              format.value_or(0), kFormat));

  const auto files = json.find("files");
  if (files == json.end() || !files->is_array() || files->size() != 1 ||
      member<std::string>(files->front(), "name") != kArraysName)
    return refuse(fmt::format("the manifest does not list exactly {}", kArraysName));
  const auto step = member<std::uint64_t>(json, "step");
  const auto bytes = member<std::uint64_t>(files->front(), "bytes");
  const auto checksum = member<std::string>(files->front(), "xxh3_64");
  const auto cfg_hash = member<std::string>(json, "cfg_hash");
  const auto program = member<std::string>(json, "program");
  if (!step || !bytes || !checksum || !cfg_hash || !program)
    return refuse("the manifest lacks step, program, cfg_hash, bytes or xxh3_64");
  return CheckpointManifest{*step, *cfg_hash, *program, *bytes,
                            std::strtoull(checksum->c_str(), nullptr, 16)};
}

std::string checkpoint_folder_name(std::uint64_t number, std::uint64_t step) {
  return fmt::format("{}{:06}{}{:09}", kPrefix, number, kMiddle, step);
}

Result<std::vector<CheckpointFolder>> list_checkpoints(const fs::path& directory) {
  std::vector<CheckpointFolder> found;
  std::error_code code;
  fs::directory_iterator entry(directory, code);
  if (code == std::errc::no_such_file_or_directory) return found;
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    if (const auto number = folder_number(entry->path().filename().string()))
      found.push_back({*number, entry->path()});
  }
  if (code)
    return Error{ErrorKind::usage, directory.string(), "cannot list: " + code.message(),
                 "give a directory that can be read"};
  std::ranges::sort(found, [](const auto& a, const auto& b) {
    return std::tie(a.number, a.path) > std::tie(b.number, b.path);
  });
  return found;
}

Result<std::uint64_t> next_checkpoint_number(const fs::path& directory) {
  OMNI_TRY(const auto earlier, list_checkpoints(directory));
  if (earlier.empty()) return std::uint64_t{1};
  if (earlier.front().number < kLargestNumber) return earlier.front().number + 1;
  return Error{ErrorKind::usage, earlier.front().path.string(),
               "no larger number is left for the next checkpoint", "look at it and remove it"};
}

Result<Checkpoint> read_checkpoint(const fs::path& folder, Links links) {
  OMNI_TRY(OpenedArrays arrays, open_arrays(folder, links));
  OMNI_TRY(Safetensors values,
           read_safetensors([&](std::span<std::byte> bytes) { return arrays.read(bytes); },
                            arrays.file.size(), arrays.path.string()));
  OMNI_CHECK(arrays.check());
  return checkpoint_of(folder, std::move(values));
}

Status verify_checkpoint(const fs::path& folder, bool with_contents) {
  OMNI_TRY(OpenedArrays arrays, open_arrays(folder, Links::refused));
  if (!with_contents) return {};
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  for (std::uint64_t left = arrays.file.size(); left > 0;) {
    const std::size_t count = std::min<std::uint64_t>(left, buffer.size());
    OMNI_CHECK(arrays.read(std::span(buffer).first(count)));
    left -= count;
  }
  return arrays.check();
}

Result<Checkpoint> checkpoint_of(const fs::path& path, Safetensors arrays) {
  Checkpoint checkpoint;
  checkpoint.path = path;
  checkpoint.fields = CheckpointFields(arrays.metadata(), path.string());
  OMNI_TRY(checkpoint.step, checkpoint.fields.number<std::uint64_t>("step"));
  OMNI_TRY(checkpoint.cfg_hash, checkpoint.fields.text("cfg_hash"));
  checkpoint.arrays = std::move(arrays);
  return checkpoint;
}

}  // namespace omni
