// Darknet's .data files: key=value lines that name the lists of images and of labels.
#pragma once

#include <filesystem>

#include "runtime/data/dataset.hpp"

namespace omni {

Result<DatasetPair> open_darknet_data(const std::filesystem::path& file, bool with_test = true);

}  // namespace omni
