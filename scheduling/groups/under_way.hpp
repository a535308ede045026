// These constants limit how many mini-batches may be submitted at once, and decoded ahead.
#pragma once

namespace omni {

// A group has at most this many mini-batches under way: while one is computed, tasks of the next
// are already submitted.
inline constexpr int kUnderWay = 2;
inline constexpr int kPrefetched = 2;  // mini-batches that are decoded ahead

}  // namespace omni
