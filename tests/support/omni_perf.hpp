// Runs omni-perf of this build.
#pragma once

#include "tests/support/run_program.hpp"

namespace omni::test {

inline Finished omni_perf(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), beside_this_program("omni-perf"));
  return run_program(std::move(arguments));
}

}  // namespace omni::test
