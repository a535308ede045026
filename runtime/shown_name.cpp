// Escapes everything but printable ASCII: control sequences can rewrite what a terminal shows.
#include "runtime/shown_name.hpp"

#include <fmt/format.h>

#include <iterator>

namespace omni {

std::string shown_name(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  std::string text = "'";
  for (const char letter : name.substr(0, kLongest)) {
    if (letter >= ' ' && letter <= '~' && letter != '\\' && letter != '\'')
      text += letter;
    else
      fmt::format_to(std::back_inserter(text), "\\x{:02x}", static_cast<unsigned char>(letter));
  }
  return text + (name.size() > kLongest ? "'..." : "'");
}

}  // namespace omni
