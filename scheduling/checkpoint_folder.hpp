// The folders of complete checkpoints: listing, naming, reading one, checking one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/files.hpp"
#include "runtime/result.hpp"
#include "scheduling/checkpoint.hpp"

namespace omni {

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
