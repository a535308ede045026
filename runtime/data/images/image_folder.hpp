// Folders of images as ImageNet and torchvision have them: train/CLASS/*.jpg and val/CLASS/*.jpg.
#pragma once

#include <filesystem>

#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"

namespace omni {

// All image files below a folder at any depth, sorted. Files of unsupported kinds are included, so
// that they cause an error instead of being skipped.
Result<std::vector<std::string>> images_below(const std::filesystem::path& folder);

bool is_image_folder(const std::filesystem::path& folder);
Result<DatasetPair> open_image_folder(const std::filesystem::path& folder, bool with_test = true);

}  // namespace omni
