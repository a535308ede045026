// The reader of LIBSVM's text files: a line per vector, "label index:value index:value ...".
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/data/dataset.hpp"
#include "runtime/memory/memory_limits.hpp"

namespace omni {

// A line names the features that are not 0. They are held as written: memory follows the files.
struct LibsvmRequest {
  std::filesystem::path train, test = {};  // test: empty for none
  int features = 0;                        // at least; the largest index of `train` counts, too
  bool scale = false;  // (x - min) / (max - min), of the training vectors; constant features: 0
  std::uint64_t limit = physical_memory() / 4;  // bytes that the vectors of a file may take
};

// By the name, *.svm or *.libsvm (maybe .gz), or by the first vector: its last word begins like 7:
bool is_libsvm(const std::filesystem::path& file);

// Labels are integers; the sorted ones of `train` are the classes.
Result<DatasetPair> open_libsvm(const LibsvmRequest& request);

}  // namespace omni
