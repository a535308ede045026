// Where compute groups are on a machine: the devices of each, and the one that serves merged
// layers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduling/forecast/machine/machine.hpp"

namespace omni {

struct GroupDevices {
  std::vector<std::vector<std::size_t>> devices{};  // by group
  std::optional<std::size_t> server{};              // of merged layers; none: nothing is merged
};

// Uses all devices. No more groups than devices: each gets neighbours, of one kind where there are
// as many groups as kinds. More share devices evenly, in order. Merged layers are on the device
// that the machine says, which then computes nothing else, or on the first.
GroupDevices place_on(const Machine& machine, int groups, bool merges);

// How devices divide a mini-batch so that all take the same time.
struct Division {
  double seconds = 0;
  std::vector<std::uint64_t> samples{};  // by device
};
Division divide(const Machine& machine, std::span<const std::size_t> devices, std::uint64_t samples,
                double flops_per_sample);

}  // namespace omni
