// The numbers of mini-batches that may be submitted at once, and decoded ahead.
#pragma once

namespace omni {

// Per group: one mini-batch that is computed, and the beginning of the next.
inline constexpr int kUnderWay = 2;
// Mini-batches that are decoded before they are used.
inline constexpr int kPrefetched = 2;

}  // namespace omni
