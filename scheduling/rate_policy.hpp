// The learning rate as a function of the iteration: Darknet's policies with burn-in, and
// AlexeyAB's sgdr.
#pragma once

#include <cstdint>

#include "layers/net_options.hpp"

namespace omni {

// `iteration` counts from 1: like Darknet, the first update already sees one batch.
float learning_rate(const SolverOptions& solver, std::uint64_t seed, std::uint64_t iteration);

}  // namespace omni
