// lower_case() returns a text in lower case. Only the letters of ASCII change.
#pragma once

#include <string>
#include <string_view>

namespace omni {

inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

}  // namespace omni
