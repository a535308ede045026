// Simulated devices run the engine's tasks in the times that DeviceOptions describes. With --wrap,
// the linker replaces the engine's calls of StarPU's submission and allocation. Every codelet but
// the decoding of images gets a GPU implementation, which never runs. A model that knows the
// devices' rates replaces StarPU's model of measured times.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tests/simgrid/bounds.hpp"

namespace omni::test {

// A task takes the longer of the times for its operations and its bytes, plus the overhead.
struct Rates {
  double flops = 0, bytes = 0;  // per second
  double overhead = 0;          // s
};

struct DeviceOptions {
  Rates core{.flops = 50e9, .bytes = 10e9, .overhead = 1e-6};
  Rates gpu{.flops = 5e12, .bytes = 600e9, .overhead = 8e-6};
  bool gpus_only = false;  // cores do nothing that a GPU could
  // This folder has StarPU's models. A core takes the times that were measured on a real core, if
  // there are any.
  std::filesystem::path recorded{};
  // True: the models know nothing at the start and learn from the tasks that run, as StarPU's
  // models do. A time is believed after ten measurements, and forgotten if it is wrong too often.
  bool learning = false;
  std::string poisoned;  // of this codelet the models have learnt `poison` for a GPU
  double poison = 0;     // s
};
void simulate_devices(const DeviceOptions& options);

// Tasks that access `data` then run on workers of this type only, unless they join slices.
void keep_on(starpu_worker_archtype type, starpu_data_handle_t data);

// Done counts the tasks that have run since count_from_now().
struct Done {
  int tasks = 0;
  double flops = 0, seconds = 0;
  int trespasses = 0;  // tasks that ran on a worker which their group does not have
};
void count_from_now();
const Bounds& submitted();
// Returns what was done by codelet, and by the type of worker in StarPU's words ("CPU", "CUDA").
const std::map<std::string, std::map<std::string, Done>>& done();

}  // namespace omni::test
