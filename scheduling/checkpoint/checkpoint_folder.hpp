// What a checkpoint holds: everything that decides the future of a training. And the folders of
// complete checkpoints: listing, naming, reading one, checking one. The manifest in each is written
// last, and says what a complete one consists of.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "layers/formats/safetensors.hpp"
#include "runtime/files.hpp"
#include "runtime/number_in.hpp"
#include "runtime/result.hpp"

namespace omni {

// Numbers and texts by name (iteration, images seen, seed, ...). Kept as text: any tool can read
// them in the metadata of the file. Real numbers come back bit for bit.
class CheckpointFields {
 public:
  CheckpointFields() = default;
  CheckpointFields(Metadata entries, std::string where)
      : entries_(std::move(entries)), where_(std::move(where)) {}

  template <class T>
  requires(!std::same_as<T, bool>) void set(std::string_view key, const T& value) {
    entries_.insert_or_assign(std::string(key), fmt::format("{}", value));
  }
  // A missing key or another kind of value is ErrorKind::data.
  Result<std::string> text(std::string_view key) const {
    const auto place = entries_.find(key);
    if (place == entries_.end()) return refuse(key, "is missing in the checkpoint");
    return place->second;
  }
  template <class T>
  Result<T> number(std::string_view key) const {
    OMNI_TRY(const std::string written, text(key));
    const auto value = number_in<T>(written);
    if (!value) return refuse(key, "is not a number that fits");
    return *value;
  }
  template <class T>
  Result<T> number(std::string_view key, T least, T most) const {
    OMNI_TRY(const T value, number<T>(key));
    if (value >= least && value <= most) return value;
    return refuse(key, "is not a number that fits");  // nor is NaN
  }
  const Metadata& entries() const { return entries_; }

 private:
  Error refuse(std::string_view key, std::string_view what) const {
    return {ErrorKind::data, where_, fmt::format("the value '{}' {}", key, what),
            "the checkpoint is of another kind of run"};
  }
  Metadata entries_;
  std::string where_;
};

// To be saved. The arrays are looked at during save() only.
struct Snapshot {
  std::uint64_t step = 0;
  std::string cfg_hash;
  std::vector<NamedArray> arrays;  // "param/...", "velocity/...", "mean_square/..."
  CheckpointFields fields;
};

// A checkpoint in memory, as loaded; it owns all of its arrays.
struct Checkpoint {
  std::filesystem::path path;
  std::uint64_t step = 0;
  std::string cfg_hash;
  CheckpointFields fields;
  Safetensors arrays;
};

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kArraysName = "arrays.safetensors";

struct CheckpointManifest {
  std::uint64_t step = 0;
  std::string cfg_hash, program;
  std::uint64_t arrays_bytes = 0, arrays_checksum = 0;
};

std::string manifest_text(const CheckpointManifest& manifest);
// Accepts only what manifest_text() wrote, byte for byte: the text ends with its own checksum.
Result<CheckpointManifest> parse_manifest(std::string_view text, const std::string& where);

struct CheckpointFolder {
  std::uint64_t number = 0;
  std::filesystem::path path;
};

// Newest first; empty when the directory is missing. Verifies nothing.
Result<std::vector<CheckpointFolder>> list_checkpoints(const std::filesystem::path& directory);

// The one after the newest.
Result<std::uint64_t> next_checkpoint_number(const std::filesystem::path& directory);

std::string checkpoint_folder_name(std::uint64_t number, std::uint64_t step);

Result<Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                   Links links = Links::refused);

// The same checks without keeping the values; `with_contents` false looks at the sizes only.
Status verify_checkpoint(const std::filesystem::path& folder, bool with_contents);

// What the file's metadata says, for arrays that have been read.
Result<Checkpoint> checkpoint_of(const std::filesystem::path& path, Safetensors arrays);

}  // namespace omni
