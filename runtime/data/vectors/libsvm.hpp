// This header reads LIBSVM's text files, which have a line per vector: "label index:value
// index:value ...".
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/data/dataset.hpp"
#include "runtime/memory/memory_limits.hpp"

namespace omni {

// A line names only the features that are not 0, and only these take memory.
struct LibsvmRequest {
  std::filesystem::path train, test = {};  // `test` empty: there is none
  int features = 0;                        // at least; there are more if `train` has larger indices
  // True: features become (x - min) / (max - min) over the training vectors; constant ones become
  // 0.
  bool scale = false;
  std::uint64_t limit = physical_memory() / 4;  // bytes that the vectors of a file may take
};

// Returns whether a file is one of LIBSVM's. Its name is *.svm or *.libsvm (maybe .gz), or the last
// word of its first vector begins with a number and a colon.
bool is_libsvm(const std::filesystem::path& file);

// Labels are integers. The sorted labels of `train` are the classes.
Result<DatasetPair> open_libsvm(const LibsvmRequest& request);

}  // namespace omni
