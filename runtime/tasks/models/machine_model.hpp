// What StarPU knows of the machine: the workers, the links between their memories, and how long
// each kind of worker would take for a task.
#pragma once

#include <vector>

struct starpu_task;

namespace omni {

struct MachineModel {
  // Workers that are equals: of one type, beside one memory.
  struct Kind {
    unsigned type = 0, memory = 0;
    bool gpu = false;
    int at_once = 1;  // tasks that one worker takes: all but the first wait for it
    std::vector<int> workers{};
  };
  struct Link {
    double latency = 0;           // s
    double seconds_per_byte = 0;  // 0 within a memory
  };
  std::vector<Kind> kinds;
  std::vector<std::vector<Link>> links;  // from, to

  // Describes this machine; needs a running Session.
  static MachineModel of_session();

  int workers() const;
  // Predicted seconds of the fastest implementation on each kind of worker; infinite: unknown.
  std::vector<double> expected_seconds(starpu_task& task) const;
};

}  // namespace omni
