// The GPUs of this machine, before StarPU starts: which there are, and which shall compute.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

struct Gpu {
  int number = 0;  // CUDA's
  std::string name;
  std::size_t memory = 0;       // bytes
  std::size_t for_tensors = 0;  // what others, StarPU's limits and libraries leave, once chosen
  int major = 0, minor = 0;     // compute capability
};

struct Gpus {
  std::vector<Gpu> found;
  std::string none_because;  // why none was found
};
Gpus find_gpus();

// "all", "none", or numbers as in "0,1". All of them, unless STARPU_NCUDA says how many; those that
// cannot be used (StarPU would end the program) or are more than StarPU was built for are left out
// with a warning, unless they are named.
Result<std::vector<Gpu>> choose_gpus(const std::string& wanted);

// The libraries' handles and memory of StarPU's CUDA workers: before it stops, as it destroys the
// streams that they are bound to. Only in a build with CUDA.
void release_cuda_workers();

}  // namespace omni
