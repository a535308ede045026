// Several devices of a machine combined into one, for a group that uses all of them.
#pragma once

#include "scheduling/arrivals/machine_file.hpp"

namespace omni {

// The devices divide a mini-batch so that all take the same time. That time varies by the law of
// the first device.
Machine united(const Machine& machine, std::uint64_t batch, double flops_per_sample);
// Combines the devices, in order, into one device per group; unchanged with no more devices than
// groups.
Machine grouped(const Machine& machine, int groups, std::uint64_t batch, double flops_per_sample);
// Mean seconds from one update to the next, where such groups send and get for `message` seconds
// each time.
double seconds_per_update(const Machine& machine, int groups, std::uint64_t batch,
                          double flops_per_sample, double message);

}  // namespace omni
