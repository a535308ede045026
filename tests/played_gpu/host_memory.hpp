// is_pinned() tells whether memory of the host is pinned. A device copies from and to pinned memory
// while the program goes on, and kernels may use pinned memory. All other host memory is pageable.
#pragma once

#include <cstddef>

namespace omni::played {

bool is_pinned(const void* address, std::size_t bytes);  // all of it

}  // namespace omni::played
