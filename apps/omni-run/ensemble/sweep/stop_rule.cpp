#include "apps/omni-run/ensemble/sweep/stop_rule.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "apps/omni-run/option_table.hpp"

namespace omni {

Result<RungOptions> rung_options(const std::string& text, std::uint64_t length) {
  const auto refuse = [&] {
    return Error{ErrorKind::usage, "--stop " + text, "is no rule",
                 "asha, asha:100, asha:100:3, median or median:100"};
  };
  std::vector<std::string> parts;
  std::istringstream words(text);
  for (std::string part; std::getline(words, part, ':');) parts.push_back(part);
  RungOptions options;
  if (parts.empty() || (parts[0] != "asha" && parts[0] != "median")) return refuse();
  options.rule = parts[0] == "asha" ? StopRule::asha : StopRule::median;
  if (parts.size() > (options.rule == StopRule::asha ? 3 : 2)) return refuse();
  if (parts.size() > 2) {
    const auto eta = count_in(parts[2], 1000);
    if (!eta || *eta < 2) return refuse();
    options.eta = *eta;
  }
  const auto share = static_cast<std::uint64_t>(
      options.rule == StopRule::asha ? options.eta * options.eta * options.eta : 10);
  options.first = std::max<std::uint64_t>(10, length / share);
  options.keeps_first = parts.size() == 1;
  if (parts.size() > 1) {
    const auto first = count_in(parts[1], 1 << 30);
    if (!first) return refuse();
    options.first = *first;
  }
  return options;
}

}  // namespace omni
