// This header reads CIFAR-10's binary version. It has per image a byte for the label, then 32x32
// reds, as many greens, and as many blues.
#pragma once

#include <filesystem>

#include "runtime/data/dataset.hpp"

namespace omni {

// A CIFAR-10 folder has data_batch_1.bin to data_batch_5.bin, and test_batch.bin. Returns whether
// `folder` has the first of them.
bool is_cifar_folder(const std::filesystem::path& folder);
Result<DatasetPair> open_cifar_folder(const std::filesystem::path& folder, bool with_test = true);

}  // namespace omni
