// This header reads lists of image files and of their classes, in Caffe's and Darknet's formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/files.hpp"
#include "runtime/result.hpp"

namespace omni {

// A Paths object keeps many paths in one buffer, so a list of millions takes hardly more memory
// than its file.
class Paths {
 public:
  void push_back(std::string_view path) {
    text_ += path;
    ends_.push_back(text_.size());
  }
  std::string_view operator[](std::size_t index) const {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(text_).substr(begin, ends_[index] - begin);
  }
  std::size_t size() const { return ends_.size(); }

 private:
  std::string text_;
  std::vector<std::size_t> ends_;
};

// A LabelFinder follows Darknet's rule: the class of an image is the label that its path contains.
class LabelFinder {
 public:
  // `labels` are different from each other, and not empty.
  explicit LabelFinder(const std::vector<std::string>& labels);

  // Returns the number of the label that is the name of a folder in the path. If no folder has such
  // a name, the label may be anywhere in the path ("n01440764" in val_0001_n01440764.JPEG). Several
  // labels are an error, which names `where`: in Darknet such an image would be of several classes.
  Result<int> find(std::string_view path, const std::string& where) const;

 private:
  struct Hash {
    using is_transparent = void;  // so parts of a path are looked up without a copy
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, int, Hash, std::equal_to<>> numbers_;
  std::vector<std::size_t> lengths_;  // of the labels, each once
};

struct ImageList {
  std::filesystem::path file = {};        // its line i + 1 is image i; empty: there is no list file
  std::filesystem::path folder = {};      // relative paths are relative to it
  Paths paths = {};                       // as the list has them
  std::vector<std::int32_t> labels = {};  // one per path, from 0 on

  int most_label() const;
};

std::string_view trim(std::string_view text);  // removes blanks at both ends

// Calls visit(line, index of the line) for the lines of a text file (maybe .gz) that are not empty,
// until it fails. `line` has no line end, and no blanks at both ends. Refuses a file without such
// lines, and lines that are no text. Refuses empty lines before others, unless `gaps`.
Status for_each_line(const std::filesystem::path& file, bool gaps,
                     const std::function<Status(std::string_view, std::size_t)>& visit);

// Reads a file with a line per class. Returns the first `classes` names, or all names for nullopt.
Result<std::vector<std::string>> read_class_names(const std::filesystem::path& file,
                                                  std::optional<int> classes);

// line_of() returns "train.txt:12"; at_line() makes an error about that line.
std::string line_of(const std::filesystem::path& file, std::size_t index);
Error at_line(const std::filesystem::path& file, std::size_t index, std::string what,
              std::string hint);

// Returns the folder below which `name` exists: the working directory, or else the first of
// `folders` that has it. For an absolute name, returns an empty path. The error names `where` and
// the folders.
Result<std::filesystem::path> find_folder_of(const std::string& name, const std::string& where,
                                             std::span<const std::filesystem::path> folders);

// Reads a list of Caffe's kind: every line is "path label", where the label is a number from 0 on.
// Relative paths are below the working directory or the list's own folder, as find_folder_of()
// finds the first of them.
Result<ImageList> read_labelled_list(const std::filesystem::path& file);

// Reads a list of Darknet's kind: every line is a path, which contains its label. Relative paths
// are found as by read_labelled_list(), or else below `data_folder`, where the .data file is.
Result<ImageList> read_path_list(const std::filesystem::path& file, const LabelFinder& labels,
                                 const std::filesystem::path& data_folder);

}  // namespace omni
