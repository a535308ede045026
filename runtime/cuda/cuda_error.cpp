#include "runtime/cuda/cuda_error.hpp"

#include <fmt/format.h>

namespace omni {
namespace {

std::string readable(std::size_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (number >= 0x1p30) return fmt::format("{:.2f} GiB", number / 0x1p30);
  if (number >= 0x1p20) return fmt::format("{:.1f} MiB", number / 0x1p20);
  if (number >= 0x1p10) return fmt::format("{:.1f} KiB", number / 0x1p10);
  return fmt::format("{} bytes", bytes);
}

}  // namespace

OutOfGpuMemory::OutOfGpuMemory(const std::string& what, int gpu, std::size_t asked,
                               std::size_t free)
    : text_(asked == 0 ? fmt::format("{} needs more memory than GPU {} has left, {}", what, gpu,
                                     readable(free))
                       : fmt::format("{} needs {} on GPU {}, {} are free", what, readable(asked),
                                     gpu, readable(free))) {}

}  // namespace omni
