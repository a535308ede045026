#include "runtime/data/memory_dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace omni {

MemoryDataset::MemoryDataset(ImageSet set) : set_(std::move(set)) {}

Status MemoryDataset::read(std::size_t index, std::span<std::uint8_t> pixels) const {
  OMNI_CHECK(check_read(*this, index, pixels.size()));
  const auto first = set_.pixels.begin() + static_cast<std::ptrdiff_t>(index * pixels.size());
  std::copy_n(first, pixels.size(), pixels.begin());
  return {};
}

std::string MemoryDataset::description() const {
  return fmt::format("{} images {}x{}x{}, {} classes, from {}", size(), set_.extent.h,
                     set_.extent.w, set_.extent.c, set_.classes, set_.origin.string());
}

}  // namespace omni
