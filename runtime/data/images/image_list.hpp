// Which image files there are and of which class each is: from lists of paths, as Caffe and Darknet
// have them.
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

// Texts in one buffer: a list of millions takes hardly more memory than its file.
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

// Darknet's rule: the class of an image is the label that its path contains.
class LabelFinder {
 public:
  // `labels` without repetition, none empty.
  explicit LabelFinder(const std::vector<std::string>& labels);

  // The label that is the name of a folder in the path, or else the only one found anywhere in it
  // ("n01440764" in val_0001_n01440764.JPEG). Several are an error, about `where`: in Darknet such
  // an image would be of several classes.
  Result<int> find(std::string_view path, const std::string& where) const;

 private:
  struct Hash {
    using is_transparent = void;  // parts of a path are looked up without a copy
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, int, Hash, std::equal_to<>> numbers_;
  std::vector<std::size_t> lengths_;  // of the labels, each once
};

struct ImageList {
  std::filesystem::path file = {};        // line i + 1 is image i; empty: they are not from a list
  std::filesystem::path folder = {};      // what relative paths are relative to
  Paths paths = {};                       // as they were written
  std::vector<std::int32_t> labels = {};  // one per path, from 0 on

  int most_label() const;
};

std::string_view trim(std::string_view text);  // without the blanks at both ends

// Calls visit(line, its index) for the lines of a text file (maybe .gz) that are not empty, without
// line ends and the blanks around them. Refuses a file without such a line, and the first line that
// is no text. Refuses empty lines between others, unless `gaps`.
Status for_each_line(const std::filesystem::path& file, bool gaps,
                     const std::function<Status(std::string_view, std::size_t)>& visit);

// The entries of a file with a line per class: the first `classes`, or all; nothing refers to the
// others.
Result<std::vector<std::string>> read_class_names(const std::filesystem::path& file,
                                                  std::optional<int> classes);

// "train.txt:12", for errors; and an error about that line.
std::string line_of(const std::filesystem::path& file, std::size_t index);
Error at_line(const std::filesystem::path& file, std::size_t index, std::string what,
              std::string hint);

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

// ---- a dataset whose images are files of all sizes, read and decoded whenever they are asked for
// ----

class FileDataset : public Dataset {
 public:
  // The labels are below `classes`. `origin`: what the user named, for the description.
  FileDataset(ImageList list, int classes, std::vector<std::string> class_names,
              std::filesystem::path origin);

  std::size_t size() const override { return list_.paths.size(); }
  Extent extent() const override { return {0, 0, 3}; }
  int classes() const override { return classes_; }
  int label(std::size_t index) const override { return list_.labels[index]; }
  Status read(std::size_t index, LeastSize least, Image& image) const override;
  std::string description() const override;
  Status look_for_files(double damaged) const override;
  std::vector<std::string> class_names() const override { return class_names_; }
  std::string place_of_label(std::size_t index) const override;
  std::string name_of(std::size_t index) const override { return original(index).string(); }
  // The destructor deletes the copies.
  Status stage(const std::filesystem::path& place, bool skips = false) override;
  ~FileDataset() override;

 private:
  std::filesystem::path original(std::size_t index) const {
    return list_.folder / list_.paths[index];
  }
  Error in_list(std::size_t index, Error error) const;  // which names the line, too
  std::filesystem::path copy(std::size_t index) const;

  ImageList list_;
  int classes_;
  std::vector<std::string> class_names_;
  std::filesystem::path origin_;
  std::filesystem::path staged_{};  // the folder of the copies; empty: there are none
  std::optional<Descriptor> lock_{};
};

// Both splits (an empty test list is none), and a name that holds a checksum of the training paths
// and labels: other lines are other data.
DatasetPair make_file_datasets(ImageList train, ImageList test, int classes,
                               const std::vector<std::string>& class_names,
                               const std::filesystem::path& origin);

// Opens two lists of image files that the user named; their labels are numbers.
Result<DatasetPair> open_labelled_lists(const std::filesystem::path& train,
                                        const std::filesystem::path& test, bool with_test = true);

}  // namespace omni
