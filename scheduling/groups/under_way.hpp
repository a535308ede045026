// How many mini-batches of one group may be submitted at once, and how many may be decoded ahead.
#pragma once

namespace omni {

// One that computes, and the beginning of the next.
inline constexpr int kUnderWay = 2;
// Decoded mini-batches that wait.
inline constexpr int kPrefetched = 2;

}  // namespace omni
