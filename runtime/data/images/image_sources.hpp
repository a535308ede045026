// This header opens data sets of image files: in folders, as train/CLASS/*.jpg and val/CLASS/*.jpg,
// or in the lists of a Darknet .data file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"

namespace omni {

// Returns all image files below a folder at any depth, sorted. Image files of kinds that cannot be
// read are included, so that they cause an error instead of being skipped.
Result<std::vector<std::string>> images_below(const std::filesystem::path& folder,
                                              bool may_be_empty = false);

// Returns whether the folder has a folder train/, or folders with images: classes without a test
// set.
bool is_image_folder(const std::filesystem::path& folder);
bool holds_image_files(const std::filesystem::path& folder);  // directly, not in its folders
Result<DatasetPair> open_image_folder(const std::filesystem::path& folder, bool with_test = true,
                                      bool for_check = false);

// Opens a .data file, whose lines key=value name the lists of images and of labels.
Result<DatasetPair> open_darknet_data(const std::filesystem::path& file, bool with_test = true);

}  // namespace omni
