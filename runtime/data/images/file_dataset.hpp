// A dataset whose images are files of all sizes, read and decoded whenever they are asked for.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/data/images/image_list.hpp"
#include "runtime/descriptor.hpp"

namespace omni {

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
  std::vector<std::string> class_names() const override { return class_names_; }
  std::string place_of_label(std::size_t index) const override;
  Status stage(const std::filesystem::path& place) override;  // the destructor deletes the copies
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
