// of_first_rank() lets all ranks decide by a number that differs between them, such as a time.
#pragma once

#include "runtime/communicator/ranks.hpp"

namespace omni {

// Returns the value of the first rank. Collective.
inline double of_first_rank(double value) {
  if (!ranks::first()) value = 0;
  ranks::sum({&value, 1});
  return value;
}

}  // namespace omni
