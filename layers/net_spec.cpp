// Lookups in the neutral net description.
#include "layers/net_spec.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace omni {

const Option* Section::find(std::string_view key) const {
  auto last = std::find_if(options.rbegin(), options.rend(),
                           [&](const Option& option) { return option.key == key; });
  return last == options.rend() ? nullptr : &*last;
}

std::string Section::where() const { return fmt::format("{}:{}", file, line); }

std::string Section::where(const Option& option) const {
  if (option.line == kCommandLine) return "command line";
  return fmt::format("{}:{}", file, option.line);
}

}  // namespace omni
