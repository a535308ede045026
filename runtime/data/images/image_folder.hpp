// Folders of images as ImageNet and torchvision have them: train/CLASS/*.jpg and val/CLASS/*.jpg.
#pragma once

#include <filesystem>

#include "runtime/data/dataset.hpp"

namespace omni {

bool is_image_folder(const std::filesystem::path& folder);
Result<DatasetPair> open_image_folder(const std::filesystem::path& folder, bool with_test = true);

}  // namespace omni
