// Simulated devices take these times for the engine's tasks. The linker sends the engine's
// submissions and allocations here (--wrap). Every codelet gets a GPU implementation, which is
// never run. A model that knows the rates of the devices replaces StarPU's model of measured times.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tests/simgrid/bounds.hpp"

namespace omni::test {

// A task takes the longer of what its operations and its bytes take, and a little more.
struct Rates {
  double flops = 0, bytes = 0;  // per second
  double overhead = 0;          // s
};

struct DeviceOptions {
  Rates core{.flops = 50e9, .bytes = 10e9, .overhead = 1e-6};
  Rates gpu{.flops = 5e12, .bytes = 600e9, .overhead = 8e-6};
  bool gpus_only = false;  // cores do nothing that a GPU could
  // A folder of StarPU's models: a core takes what was measured on a real one, where it was.
  std::filesystem::path recorded{};
  // True: the models know nothing at the start and learn from what runs, as StarPU's do. A time is
  // believed from the tenth on, and forgotten when it misses too often.
  bool learning = false;
  std::string poisoned;  // of this codelet the models have learnt `poison` for a GPU
  double poison = 0;     // s
};
void simulate_devices(const DeviceOptions& options);

// Tasks that use these data alone of all slices' run on workers of this type.
void keep_on(starpu_worker_archtype type, starpu_data_handle_t data);

// Done counts what has run since count_from_now().
struct Done {
  int tasks = 0;
  double flops = 0, seconds = 0;
  int trespasses = 0;  // tasks that ran on a worker which their group does not have
};
void count_from_now();
const Bounds& submitted();
// By codelet, then by the type of worker that StarPU names ("CPU", "CUDA").
const std::map<std::string, std::map<std::string, Done>>& done();

}  // namespace omni::test
