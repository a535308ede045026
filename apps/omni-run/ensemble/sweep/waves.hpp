// With tpe:COUNT members of a sweep begin in waves. Chance draws the settings of the first wave.
// All members of a wave end before the next one is drawn from what they have reached. ensemble.json
// has the settings of a wave before its members train, so a run that was killed goes on with them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/omni-run/ensemble/ensemble_folder.hpp"
#include "apps/omni-run/ensemble/sweep/sweep_spec.hpp"

namespace omni {

struct SweepWave {
  std::size_t first = 0;               // the number of its first member in the sweep
  std::vector<SweepMember> members{};  // at least one
  bool is_last = false;
};

// `begun` are the members that ensemble.json has, whose names begin with that of the net. Returns
// their last wave again if its members have not all ended, or if the sweep has no further wave.
Result<SweepWave> next_wave(const SweepSpec& sweep, const std::string& net,
                            const std::vector<EnsembleMember>& begun, std::uint64_t seed);

}  // namespace omni
