// These constants limit how many mini-batches may be submitted at once, and decoded ahead.
#pragma once

namespace omni {

// A group has at most two mini-batches under way: one that is computed, and one whose first tasks
// are submitted.
inline constexpr int kUnderWay = 2;
inline constexpr int kPrefetched = 2;  // mini-batches that are decoded ahead

}  // namespace omni
