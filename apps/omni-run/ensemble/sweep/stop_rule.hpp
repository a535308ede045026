// Reads --stop: "asha", "asha:100:3", "median:50". Without a number of iterations, the number
// follows from `length`, that of the training in iterations; 0: the training has no end.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/result.hpp"
#include "scheduling/ensemble/rungs.hpp"

namespace omni {

Result<RungOptions> rung_options(const std::string& text, std::uint64_t length);

}  // namespace omni
