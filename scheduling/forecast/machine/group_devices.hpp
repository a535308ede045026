// GroupDevices places compute groups on a machine: it has the devices of each group, and the device
// that computes the merged layers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduling/forecast/machine/machine.hpp"

namespace omni {

struct GroupDevices {
  std::vector<std::vector<std::size_t>> devices{};  // by group
  std::optional<std::size_t> server{};              // computes merged layers; none: there are none
};

// Places groups on all devices. A group gets neighbouring devices, of one kind if there are at
// least as many groups as kinds. If there are more groups than devices, groups share devices
// evenly, in order. Merged layers are on the device with `serves_merged`, which computes nothing
// else. Without such a device they are on the first one. Of unlike nodes, groups with fewer nodes
// may have faster ones (first_ranks()).
GroupDevices place_on(const Machine& machine, int groups, bool merges);

// A Division divides a mini-batch among devices, so that the slowest takes as little time as
// possible.
struct Division {
  double seconds = 0;                    // of the slowest device
  std::vector<std::uint64_t> samples{};  // by device
};
Division divide(const Machine& machine, std::span<const std::size_t> devices, std::uint64_t samples,
                double flops_per_sample);

}  // namespace omni
