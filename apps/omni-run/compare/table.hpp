// What `omni-run compare` prints: a row per strategy, the best one, and how sure that is.
#pragma once

#include <string>

#include "perf/comparison/comparison.hpp"

namespace omni {

std::string comparison_table(const perf::Comparison& comparison);

}  // namespace omni
