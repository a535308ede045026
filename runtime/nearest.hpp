// "Did you mean": the known name that a misspelt one was probably meant to be.
#pragma once

#include <span>
#include <string_view>

namespace omni {

// The nearest candidate within a small edit distance, or "".
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace omni
