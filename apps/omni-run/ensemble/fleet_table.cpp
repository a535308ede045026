#include "apps/omni-run/ensemble/fleet_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace omni {
namespace {

std::string time_text(double seconds) {
  return std::isfinite(seconds) ? fmt::format("{:.1f} s", seconds) : "not possible";
}

std::string beside(double seconds, double planned) {
  return std::isfinite(seconds) && planned > 0
             ? fmt::format("{} ({:.2f} times the plan)", time_text(seconds), seconds / planned)
             : time_text(seconds);
}

}  // namespace

Result<std::string> fleet_table(const Fleet& fleet, const FleetPlan& plan,
                                std::span<const std::string> names) {
  OMNI_TRY(const double together, makespan_all_at_once(fleet));
  OMNI_TRY(const double in_turn, makespan_one_by_one(fleet));
  std::string text =
      fmt::format("{:>8} {:>10} {:>10} {:>10} {:>12} {:>7}  {}\n", "flotilla", "from s", "takes s",
                  "samples/s", "samples", "devices", "members: devices (samples/s alone)");
  double from = 0;
  for (std::size_t i = 0; i < plan.flotillas.size(); ++i) {
    const Flotilla& flotilla = plan.flotillas[i];
    text += fmt::format("{:>8} {:>10.1f} {:>10.1f} {:>10.1f} {:>12} {:>7} ", i + 1, from,
                        flotilla.seconds, flotilla.pace, flotilla.samples, flotilla.devices());
    for (const auto& [member, devices] : flotilla.shares) {
      const bool ends = std::ranges::find(flotilla.ended, member) != flotilla.ended.end();
      text += fmt::format(" {}: {} ({:.1f}{})", names[member], devices,
                          fleet.members[member].rates[devices - 1], ends ? ", ends" : "");
    }
    text += '\n';
    from += flotilla.seconds;
  }
  return text + fmt::format("makespan: {}; all at once: {}; one after another: {}\n",
                            time_text(plan.seconds()), beside(together, plan.seconds()),
                            beside(in_turn, plan.seconds()));
}

}  // namespace omni
