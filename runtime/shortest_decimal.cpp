#include "runtime/shortest_decimal.hpp"

#include <fmt/format.h>

namespace omni {

double shortest_decimal(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace omni
