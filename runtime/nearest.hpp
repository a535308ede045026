// nearest() finds the known name that is most like a misspelt one, for "did you mean".
#pragma once

#include <span>
#include <string_view>

namespace omni {

// Returns the candidate with the smallest edit distance to `word`, or "" if none is close enough.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace omni
