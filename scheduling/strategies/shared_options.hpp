// Strategies in several files use the options that this header declares.
#pragma once

#include "scheduling/strategies/own_options.hpp"

namespace omni {

inline constexpr DeclaredOption kSyncEvery{"--sync-every", "MINI-BATCHES",
                                           "mini-batches of each group between two meetings",
                                           whole_from(1, 1 << 20)};
inline constexpr DeclaredOption kCentralMomentum{
    "--central-momentum", "SHARE",
    "momentum of the average; unless it is 0, the models of elastic step without the net's "
    "momentum",
    number_from(0, 0.999999)};

}  // namespace omni
