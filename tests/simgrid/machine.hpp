// A Machine exists only in SimGrid. It has cores, GPUs and links between their memories, in the
// form of the files that StarPU writes for a real machine. A task's time follows from its
// operations and bytes, or from a record of a real machine. The program `simulate` runs on it, with
// one machine per process.
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

// Runs the program with these arguments on the machine, and returns its results. If it failed,
// "failed" tells why. The source of each program lists its arguments.
nlohmann::json simulate(const Machine& machine, nlohmann::json arguments,
                        const char* program = "simulate");

}  // namespace omni::test
