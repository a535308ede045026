// Where memory begins, as far as libraries choose by it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace omni {

constexpr int kWidestLoad = 16;  // bytes

// In bytes. No more than the widest load of a thread asks for: where memory happens to be must not
// decide which algorithm is taken, and with it how results are rounded.
inline int alignment_of(const void* address) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return std::min(kWidestLoad, 1 << std::min(30, std::countr_zero(begin)));
}

}  // namespace omni
