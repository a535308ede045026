// Which image files there are and of which class each is: from lists of paths, as Caffe and Darknet
// have them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/images/labels.hpp"
#include "runtime/result.hpp"

namespace omni {

struct ImageList {
  std::filesystem::path file = {};        // line i + 1 is image i; empty: they are not from a list
  std::filesystem::path folder = {};      // what relative paths are relative to
  std::vector<std::string> paths = {};    // as they were written
  std::vector<std::int32_t> labels = {};  // one per path, from 0 on

  int most_label() const;
};

std::string_view trim(std::string_view text);  // without the blanks at both ends

// The lines of a text file up to the last one that is not empty, without line ends and the blanks
// around them. Refuses a file without any, and what is no text.
Result<std::vector<std::string>> read_lines(const std::filesystem::path& file);
// The same; refuses empty lines between others.
Result<std::vector<std::string>> read_entries(const std::filesystem::path& file);

// "train.txt:12", for errors.
std::string line_of(const std::filesystem::path& file, std::size_t index);

// Where `name` exists: below the working directory, or below the first other of `folders` that has
// it; which ones were tried is in the error, about `where`. An absolute name needs no folder.
Result<std::filesystem::path> find_folder_of(const std::string& name, const std::string& where,
                                             std::span<const std::filesystem::path> folders);

// Caffe's: "path label" on every line, the label a number from 0 on. Relative paths: see
// find_folder_of, with the list's own folder; the first line decides for all.
Result<ImageList> read_labelled_list(const std::filesystem::path& file);

// Darknet's: a path on every line, which holds its label. `data_folder`: where the .data file is,
// the last place to look for relative paths.
Result<ImageList> read_path_list(const std::filesystem::path& file, const LabelFinder& labels,
                                 const std::filesystem::path& data_folder);

}  // namespace omni
