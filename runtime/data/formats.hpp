// This header has the list of formats of data that --data may name. Each format registers itself in
// the file that reads it.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/open.hpp"

namespace omni {

struct DataFormat {
  int order = 0;          // formats with lower numbers are asked, and listed, first
  std::string_view name;  // "LIBSVM", as in docs/user/data.md
  std::string_view form;  // for --help and messages: "two LIBSVM files: train.svm,test.svm"
  bool (*is)(const DatasetRequest&) = nullptr;  // null: `source` is `name`, maybe with numbers
  Result<DatasetPair> (*open)(const DatasetRequest&) = nullptr;
  bool installed = false;  // true: known by name, and looked for on the machine
  bool scales = false;     // true: heeds DatasetRequest::scale_features
};

struct DataFormatRegistration {
  explicit DataFormatRegistration(DataFormat format);
};

const std::vector<DataFormat>& data_formats();
const DataFormat* format_of(const DatasetRequest& request);  // null: none of them
std::string known_sources();                                 // the forms of all

// TwoFiles are the files of "train.txt,val.txt", unless there is one file of that name. An empty
// `second` means that there is no second file.
struct TwoFiles {
  std::filesystem::path first, second;
};
TwoFiles two_files(const DatasetRequest& request);

// Returns the first of `folders` below $OMNIVORE_DATA that `is_wanted` accepts.
std::optional<std::filesystem::path> find_in_data_folder(
    std::initializer_list<const char*> folders, bool (*is_wanted)(const std::filesystem::path&));

}  // namespace omni
