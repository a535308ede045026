// The GPUs of this machine, before StarPU starts: which there are, and which shall compute.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

struct Gpu {
  int number = 0;  // CUDA's
  std::string name;
  std::size_t memory = 0;  // bytes
  // Once chosen: memory left by other processes and libraries, and the part that StarPU may use for
  // tensors.
  std::size_t left = 0, for_tensors = 0;
  int major = 0, minor = 0;  // compute capability
};

struct Gpus {
  std::vector<Gpu> found;
  std::string none_because;  // why none was found
};
Gpus find_gpus();

struct ChosenGpus {
  std::vector<Gpu> gpus;
  std::map<int, std::string> left_out;  // why, by number; unless none were to be looked at
};
// "all", "none" (no numbers), or numbers as in "0,1"; which there are is not looked at.
Result<std::vector<int>> gpu_numbers(const std::string& wanted);
// Those of the machine. "all" means as many as STARPU_NCUDA says, if it is set; it
// leaves out, with a warning, GPUs that cannot be used (StarPU would end the program) or exceed the
// number that StarPU was built for. A named GPU of that kind is an error.
Result<ChosenGpus> choose_gpus(const std::string& wanted);

// By default StarPU leaves a tenth of a GPU's memory unused. Tells it to use all that is free,
// unless the user has set a limit. Workspace of libraries comes out of that, too; the forecast
// makes sure that both fit.
void let_starpu_use(const Gpu& gpu);

// Largest workspace that an algorithm of a library may use on a GPU of so many bytes; each worker
// keeps one.
constexpr std::size_t most_workspace(std::size_t memory) { return memory / 32; }

// How much of `free` bytes we may allocate. CUDA needs the rest: it loads kernels when they are
// first used, and the handles of libraries keep memory.
constexpr std::size_t left_by_libraries(std::size_t free) {
  return free - std::min(std::size_t{1} << 30, free / 20);
}

// Frees the libraries' handles and memory of StarPU's CUDA workers. Call it before StarPU stops,
// which destroys the streams that they use. Only in a build with CUDA.
void release_cuda_workers();

}  // namespace omni
