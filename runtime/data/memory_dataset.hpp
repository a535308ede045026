// A dataset whose 8-bit images lie in memory, as the file readers deliver it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"

namespace omni {

struct ImageSet {
  Extent extent;
  std::vector<std::uint8_t> pixels = {};  // images one after the other
  std::vector<std::uint8_t> labels = {};  // one per image, below `classes`
  int classes = 0;
  std::vector<std::string> class_names = {};
  std::filesystem::path origin = {};  // for the description
};

class MemoryDataset : public Dataset {
 public:
  explicit MemoryDataset(ImageSet set);

  std::size_t size() const override { return set_.labels.size(); }
  Extent extent() const override { return set_.extent; }
  int classes() const override { return set_.classes; }
  int label(std::size_t index) const override { return set_.labels[index]; }
  Status read(std::size_t index, LeastSize least, Image& image) const override;
  std::string description() const override;
  std::vector<std::string> class_names() const override { return set_.class_names; }

 private:
  ImageSet set_;
};

}  // namespace omni
