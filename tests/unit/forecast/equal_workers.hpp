// equal_workers() returns a machine with one memory and equal workers.
#pragma once

#include <numeric>

#include "runtime/tasks/models/machine_model.hpp"

namespace omni::test {

inline MachineModel equal_workers(int workers) {
  MachineModel machine{.kinds = {MachineModel::Kind{}}, .links = {{MachineModel::Link{}}}};
  std::vector<int>& numbers = machine.kinds.front().workers;
  numbers.resize(static_cast<std::size_t>(workers));
  std::iota(numbers.begin(), numbers.end(), 0);
  return machine;
}

}  // namespace omni::test
