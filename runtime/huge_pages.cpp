#include "runtime/huge_pages.hpp"

#include <sys/mman.h>

#include <cstdint>

namespace omni {

void prefer_huge_pages(void* memory, std::size_t bytes) {
  constexpr std::uintptr_t kHuge = 2 << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + kHuge - 1) / kHuge * kHuge,
                       last = (begin + bytes) / kHuge * kHuge;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace omni
