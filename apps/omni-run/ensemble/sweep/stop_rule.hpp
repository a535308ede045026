// Reads --stop: "asha", "asha:100:3", "median:50". Without a number of iterations, it follows from
// the length of the training (0: no end), or is that of the run which is resumed. Members of a
// later wave may have other lengths.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/result.hpp"
#include "scheduling/ensemble/rungs.hpp"

namespace omni {

Result<RungOptions> rung_options(const std::string& text, std::uint64_t length);

}  // namespace omni
