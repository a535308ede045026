// This header reads the binary version of CIFAR-10. A record has one byte for the label, then 32x32
// bytes of red, as many of green, and as many of blue.
#pragma once

#include <filesystem>

#include "runtime/data/dataset.hpp"

namespace omni {

// A CIFAR-10 folder has data_batch_1.bin to data_batch_5.bin, and test_batch.bin. Returns whether
// `folder` has the first of them.
bool is_cifar_folder(const std::filesystem::path& folder);
Result<DatasetPair> open_cifar_folder(const std::filesystem::path& folder, bool with_test = true);

}  // namespace omni
