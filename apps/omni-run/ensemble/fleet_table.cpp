#include "apps/omni-run/ensemble/fleet_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace omni {
namespace {

constexpr double kSurelyFaster = 1e-6;  // share of the makespan; rounding errors are smaller

// Makespans are those of the plan, of all members at once, and of one member after the other.
struct Makespans {
  double plan, together, in_turn;  // s; infinite: not possible

  static Result<Makespans> of(const Fleet& fleet, const FleetPlan& plan) {
    OMNI_TRY(const double together, makespan_all_at_once(fleet));
    OMNI_TRY(const double in_turn, makespan_one_by_one(fleet));
    return Makespans{plan.seconds(), together, in_turn};
  }
  bool is_sharing_faster() const { return together < plan * (1 - kSurelyFaster); }
};

int decimals_of(double makespan) { return makespan >= 10 ? 1 : makespan >= 0.1 ? 3 : 6; }

std::string time_text(double seconds) {
  return std::isfinite(seconds) ? fmt::format("{:.{}f} s", seconds, decimals_of(seconds))
                                : "not possible";
}

std::string beside(double seconds, double planned) {
  return std::isfinite(seconds) && planned > 0
             ? fmt::format("{} ({:.2f} times the plan)", time_text(seconds), seconds / planned)
             : time_text(seconds);
}

bool ends_in(const Flotilla& flotilla, int member) {
  return std::ranges::find(flotilla.ended, member) != flotilla.ended.end();
}

nlohmann::ordered_json json_seconds(double seconds) {
  return std::isfinite(seconds) ? nlohmann::ordered_json(seconds) : nlohmann::ordered_json(nullptr);
}

}  // namespace

Result<std::string> fleet_table(const Fleet& fleet, const FleetPlan& plan,
                                std::span<const std::string> names) {
  OMNI_TRY(const Makespans all, Makespans::of(fleet, plan));
  const int decimals = decimals_of(all.plan);
  std::string text =
      fmt::format("{:>8} {:>10} {:>10} {:>10} {:>12} {:>7}  {}\n", "flotilla", "from s", "takes s",
                  "samples/s", "samples", "devices", "members: devices (samples/s alone)");
  double from = 0;
  for (std::size_t i = 0; i < plan.flotillas.size(); ++i) {
    const Flotilla& flotilla = plan.flotillas[i];
    text += fmt::format("{:>8} {:>10.{}f} {:>10.{}f} {:>10.1f} {:>12} {:>7} ", i + 1, from,
                        decimals, flotilla.seconds, decimals, flotilla.pace, flotilla.samples,
                        flotilla.devices());
    for (const auto& [member, devices] : flotilla.shares)
      text += fmt::format(" {}: {} ({:.1f}{})", names[member], devices,
                          fleet.members[member].rates[devices - 1],
                          ends_in(flotilla, member) ? ", ends" : "");
    text += '\n';
    from += flotilla.seconds;
  }
  text += fmt::format("makespan: {}; all at once: {}; one after another: {}\n", time_text(all.plan),
                      beside(all.together, all.plan), beside(all.in_turn, all.plan));
  if (all.is_sharing_faster())
    text +=
        "all at once is faster, if sharing a device costs nothing: a plan gives each member "
        "devices of its own\n";
  return text;
}

Result<nlohmann::ordered_json> fleet_json(const Fleet& fleet, const FleetPlan& plan,
                                          std::span<const std::string> names) {
  OMNI_TRY(const Makespans all, Makespans::of(fleet, plan));
  auto members = nlohmann::ordered_json::array(), flotillas = members;
  for (std::size_t i = 0; i < names.size(); ++i)
    members.push_back({{"name", names[i]},
                       {"samples", fleet.members[i].samples},
                       {"rates", fleet.members[i].rates}});
  double from = 0;
  for (const Flotilla& flotilla : plan.flotillas) {
    auto shares = nlohmann::ordered_json::array();
    for (const auto& [member, devices] : flotilla.shares)
      shares.push_back({{"name", names[member]},
                        {"devices", devices},
                        {"samples_per_second_alone", fleet.members[member].rates[devices - 1]},
                        {"ends", ends_in(flotilla, member)}});
    flotillas.push_back({{"from_seconds", from},
                         {"seconds", flotilla.seconds},
                         {"samples_per_second", flotilla.pace},
                         {"samples", flotilla.samples},
                         {"devices", flotilla.devices()},
                         {"members", shares}});
    from += flotilla.seconds;
  }
  return nlohmann::ordered_json{{"members", members},
                                {"flotillas", flotillas},
                                {"makespan_seconds", all.plan},
                                {"all_at_once_seconds", json_seconds(all.together)},
                                {"one_by_one_seconds", json_seconds(all.in_turn)},
                                {"all_at_once_is_faster", all.is_sharing_faster()}};
}

}  // namespace omni
