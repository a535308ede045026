#include "runtime/data/memory_dataset.hpp"

#include <fmt/format.h>

#include <utility>

namespace omni {

MemoryDataset::MemoryDataset(ImageSet set) : set_(std::move(set)) {}

Status MemoryDataset::read(std::size_t index, LeastSize, Image& image) const {
  OMNI_CHECK(check_index(*this, index));
  const auto bytes = static_cast<std::ptrdiff_t>(set_.extent.count());
  const auto first = set_.pixels.begin() + static_cast<std::ptrdiff_t>(index) * bytes;
  image.extent = set_.extent;
  image.pixels.assign(first, first + bytes);
  return {};
}

std::string MemoryDataset::description() const {
  return fmt::format("{} images {}x{}x{}, {} classes, from {}", size(), set_.extent.h,
                     set_.extent.w, set_.extent.c, set_.classes, set_.origin.string());
}

}  // namespace omni
