// The manifest of a checkpoint: written last, it says what a complete one consists of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/result.hpp"

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

}  // namespace omni
