// Where memory begins, as far as libraries choose by it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace omni {

// In bytes. No more than the widest load of a thread asks for: where memory happens to be must not
// decide which algorithm is taken, and with it how results are rounded.
inline int alignment_of(const void* address) {
  return 1 << std::min(4, std::countr_zero(reinterpret_cast<std::uintptr_t>(address)));
}

}  // namespace omni
