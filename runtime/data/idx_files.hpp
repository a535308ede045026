// This header reads IDX files, the format of MNIST, compressed by gzip or not. The sizes in a
// header are checked against the file's size before memory is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/data/dataset.hpp"

namespace omni {

struct IdxImages {
  Extent extent;
  std::size_t count = 0;
  std::vector<std::uint8_t> pixels;
};

// Images may take at most `limit` bytes of memory: a gzip file of a few MB may expand to terabytes.
inline constexpr std::uint64_t kIdxLimit = std::uint64_t{16} << 30;
Result<IdxImages> read_idx_images(const std::filesystem::path& path,
                                  std::uint64_t limit = kIdxLimit);
Result<std::vector<std::uint8_t>> read_idx_labels(const std::filesystem::path& path);

// An IDX folder has four files: {train,t10k}-{images-idx3,labels-idx1}-ubyte, each with or without
// .gz. Returns whether `folder` has the first of them.
bool is_idx_folder(const std::filesystem::path& folder);
Result<DatasetPair> open_idx_folder(const std::filesystem::path& folder, bool with_test = true);

}  // namespace omni
