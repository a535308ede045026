// This many mini-batches may be submitted at once, or decoded ahead.
#pragma once

namespace omni {

// A group has at most two mini-batches under way: one that is computed, and the beginning of the
// next.
inline constexpr int kUnderWay = 2;
// This many mini-batches are decoded before they are used.
inline constexpr int kPrefetched = 2;

}  // namespace omni
