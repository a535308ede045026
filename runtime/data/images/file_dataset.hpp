// A FileDataset is a data set of image files, whose images may have any size. An image is read and
// decoded whenever it is asked for.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/data/images/image_list.hpp"
#include "runtime/files.hpp"

namespace omni {

class FileDataset : public Dataset {
 public:
  // Labels are below `classes`. `origin` is what the user named, for description().
  FileDataset(ImageList list, int classes, std::vector<std::string> class_names,
              std::filesystem::path origin);
  FileDataset(const FileDataset&) = delete;
  FileDataset& operator=(const FileDataset&) = delete;

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
  std::uint64_t bytes_of(std::size_t index) const override;
  Result<std::uint64_t> content_checksum(std::size_t index) const override;
  // Copies the files into a new folder in `place`. The destructor deletes this folder. After an
  // error no copy is left.
  Status stage(const std::filesystem::path& place, bool skips = false) override;
  void unstage() override;
  ~FileDataset() override { unstage(); }

 private:
  std::filesystem::path original(std::size_t index) const {
    return list_.folder / list_.paths[index];
  }
  Error in_list(std::size_t index, Error error) const;  // adds the line in the list
  Status copy_files(bool skips);
  std::filesystem::path copy(std::size_t index) const;

  ImageList list_;
  int classes_;
  std::vector<std::string> class_names_;
  std::filesystem::path origin_;
  std::filesystem::path staged_{};  // folder of the copies; empty: there are none
  std::optional<Descriptor> lock_{};
};

// Makes data sets of two lists; of an empty list, none. The name has a checksum of the training
// paths and labels, because a file with other lines is another data set.
DatasetPair make_file_datasets(ImageList train, ImageList test, int classes,
                               const std::vector<std::string>& class_names,
                               const std::filesystem::path& origin);

// Opens two lists of Caffe's kind (see read_labelled_list()) that the user has named.
Result<DatasetPair> open_labelled_lists(const std::filesystem::path& train,
                                        const std::filesystem::path& test, bool with_test = true);

}  // namespace omni
