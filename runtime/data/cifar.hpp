// CIFAR-10's binary version: records of one label byte and 32x32 pixels, planes of red, green and
// blue.
#pragma once

#include <filesystem>

#include "runtime/data/dataset.hpp"

namespace omni {

// A folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin.
bool is_cifar_folder(const std::filesystem::path& folder);
Result<DatasetPair> open_cifar_folder(const std::filesystem::path& folder, bool with_test = true);

}  // namespace omni
