// A MemoryDataset is a data set of images that lie in memory, with 8 bits per value.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/dataset.hpp"

namespace omni {

struct ImageSet {
  Extent extent;
  std::vector<std::uint8_t> pixels = {};  // images one after the other
  std::vector<std::uint8_t> labels = {};  // one per image, below `classes`
  int classes = 0;
  std::vector<std::string> class_names = {};
  std::filesystem::path origin = {};  // the folder of its files, for description()
};

class MemoryDataset : public Dataset {
 public:
  explicit MemoryDataset(ImageSet set) : set_(std::move(set)) {}

  std::size_t size() const override { return set_.labels.size(); }
  Extent extent() const override { return set_.extent; }
  int classes() const override { return set_.classes; }
  int label(std::size_t index) const override { return set_.labels[index]; }

  Status read(std::size_t index, LeastSize, Image& image) const override {
    OMNI_CHECK(check_index(*this, index));
    const auto bytes = static_cast<std::ptrdiff_t>(set_.extent.count());
    const auto first = set_.pixels.begin() + static_cast<std::ptrdiff_t>(index) * bytes;
    image.extent = set_.extent;
    image.pixels.assign(first, first + bytes);
    return {};
  }

  std::string description() const override {
    return fmt::format("{} images {}x{}x{}, {} classes, from {}", size(), set_.extent.h,
                       set_.extent.w, set_.extent.c, set_.classes, set_.origin.string());
  }
  std::vector<std::string> class_names() const override { return set_.class_names; }

 private:
  ImageSet set_;
};

}  // namespace omni
