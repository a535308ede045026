#include "scheduling/pilots/registry.hpp"

#include <algorithm>

namespace omni {
namespace {

std::vector<PilotType>& pilots_by_name() {
  static std::vector<PilotType> all;
  return all;
}

}  // namespace

PilotRegistration::PilotRegistration(PilotType type) {
  std::vector<PilotType>& all = pilots_by_name();
  all.insert(std::ranges::lower_bound(all, type.name, {}, &PilotType::name), std::move(type));
}

const std::vector<PilotType>& pilot_types() { return pilots_by_name(); }

const PilotType* find_pilot(std::string_view name) {
  const auto found = std::ranges::find(pilots_by_name(), name, &PilotType::name);
  return found == pilots_by_name().end() ? nullptr : &*found;
}

std::vector<std::unique_ptr<Pilot>> make_pilots(const PilotOptions& options) {
  std::vector<std::unique_ptr<Pilot>> made;
  for (const PilotType& type : pilots_by_name())
    if (auto pilot = type.make(options)) made.push_back(std::move(pilot));
  if (options.make_another) made.push_back(options.make_another());
  return made;
}

}  // namespace omni
