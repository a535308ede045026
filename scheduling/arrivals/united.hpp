// Devices of a machine as one, for a group that all of them serve.
#pragma once

#include "scheduling/arrivals/machine_file.hpp"

namespace omni {

// Of a mini-batch of that size each device takes as much as it can in the time that all need. The
// time varies as the first device's.
Machine united(const Machine& machine, std::uint64_t batch, double flops_per_sample);
// So many devices, each of which stands for a share of the machine's, in order; all of them where
// there are no more.
Machine grouped(const Machine& machine, int groups, std::uint64_t batch, double flops_per_sample);

}  // namespace omni
