// The folders of complete checkpoints: listing, naming, reading one, checking one. The manifest in
// each is written last, and says what a complete one consists of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/files.hpp"
#include "runtime/result.hpp"
#include "scheduling/checkpoint.hpp"

namespace omni {

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
