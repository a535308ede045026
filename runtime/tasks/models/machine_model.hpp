// A MachineModel describes the machine as StarPU sees it: its workers, and the links between their
// memories. It says how long each kind of worker would take for a task.
#pragma once

#include <cstddef>
#include <vector>

struct starpu_task;

namespace omni {

struct MachineModel {
  // A Kind has the workers of one type with the same memory.
  struct Kind {
    unsigned type = 0, memory = 0;
    bool gpu = false;
    int at_once = 1;  // tasks that one worker holds: it runs the first, the others wait
    std::vector<int> workers{};
  };
  struct Link {
    double latency = 0;           // s
    double seconds_per_byte = 0;  // 0 within a memory
  };
  std::vector<Kind> kinds;
  std::vector<std::vector<Link>> links;  // links[from][to], by number of the memory

  // Describes this machine; needs a running Session.
  static MachineModel of_session();

  int workers() const;
  // Returns the predicted seconds of the fastest implementation, by kind of worker; infinite:
  // unknown.
  std::vector<double> expected_seconds(starpu_task& task) const;
};

}  // namespace omni
