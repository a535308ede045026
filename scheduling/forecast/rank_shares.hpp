// These functions choose how unlike ranks share mini-batches, by how fast each computes.
#pragma once

#include <span>
#include <vector>

namespace omni {

// Returns whole weights (RankShares::weights) for ranks of these speeds. A weight is rounded to
// eighths, quarters and so on, by 6 % at most. So the next measurement seldom gives other weights,
// for whose sizes of slices StarPU would need new performance models. Returns nothing if equal
// shares take at most kWorthUnequal times as long.
std::vector<int> weights_of_speeds(std::span<const double> speeds);

}  // namespace omni
