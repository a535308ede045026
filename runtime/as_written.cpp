#include "runtime/as_written.hpp"

#include <fmt/format.h>

namespace omni {

double as_written(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace omni
