// A machine that only exists in SimGrid: cores, GPUs and the links between their memories, in the
// files that StarPU measures on a real one. What a task takes there follows from its operations
// and bytes, or from what it took on a real one. `simulate` is the program that runs on it, one
// machine per process.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/support/temporary_directory.hpp"

namespace omni::test {

struct Machine {
  int cores = 4, gpus = 0;   // cores that compute; a GPU's driver has one of its own
  double link = 12e9;        // bytes/s, between a GPU and anything else, each way
  double latency = 10e-6;    // s
  double gpu_memory = 32e9;  // bytes
};

// Simulates what the arguments say and says what came out; "failed" is why nothing did. `program`:
// see its source.
nlohmann::json simulate(const Machine& machine, nlohmann::json arguments,
                        const char* program = "simulate");

}  // namespace omni::test
