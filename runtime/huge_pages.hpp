// Huge pages for large blocks of memory: a matrix whose rows are read a piece at a time touches a
// page per row, of which a core can only look up so many at once.
#pragma once

#include <cstddef>

namespace omni {

// For memory that nobody has touched yet. What the system does not grant stays as it is.
void prefer_huge_pages(void* memory, std::size_t bytes);

}  // namespace omni
