// These functions list, name, read and verify the folders of complete checkpoints. A checkpoint has
// everything that determines how a training goes on. Each folder has a manifest, which is written
// last and states the size and checksum of the arrays.
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

// CheckpointFields are numbers and texts by name (iteration, samples, seed, ...). They are
// stored as text in the metadata of the file, where any tool can read them. Real numbers are
// restored bit by bit.
class CheckpointFields {
 public:
  CheckpointFields() = default;
  CheckpointFields(Metadata entries, std::string where)
      : entries_(std::move(entries)), where_(std::move(where)) {}

  template <class T>
  requires(!std::same_as<T, bool>) void set(std::string_view key, const T& value) {
    entries_.insert_or_assign(std::string(key), fmt::format("{}", value));
  }
  // Returns ErrorKind::data if the key is missing or the value is of another kind.
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
    return refuse(key, "is not a number that fits");  // also for NaN
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

// A Snapshot is a checkpoint that is to be saved. The values of the arrays are only read during
// save().
struct Snapshot {
  std::uint64_t step = 0;
  std::string cfg_hash;
  std::vector<NamedArray> arrays;  // "param/...", "velocity/...", "group1/...", ...
  CheckpointFields fields;
};

// A Checkpoint was loaded into memory; it owns all of its arrays.
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

// Lists the checkpoints, the newest first; empty when the directory is missing. Verifies nothing.
Result<std::vector<CheckpointFolder>> list_checkpoints(const std::filesystem::path& directory);

// Returns the number of the newest checkpoint plus 1; without checkpoints 1.
Result<std::uint64_t> next_checkpoint_number(const std::filesystem::path& directory);

std::string checkpoint_folder_name(std::uint64_t number, std::uint64_t step);

Result<Checkpoint> read_checkpoint(const std::filesystem::path& folder,
                                   Links links = Links::refused);

// Checks the manifest and the size of the arrays, and `with_contents` also their checksum.
Status verify_checkpoint(const std::filesystem::path& folder, bool with_contents);

// Makes a checkpoint from arrays that have been read. Its fields are in the metadata of the arrays'
// file.
Result<Checkpoint> checkpoint_of(const std::filesystem::path& path, Safetensors arrays);

}  // namespace omni
