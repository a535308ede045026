// These functions find the GPUs of this machine, and choose those that shall compute. All but
// release_cuda_workers() are called before StarPU starts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

struct Gpu {
  int number = 0;  // CUDA's device number
  std::string name;
  std::size_t memory = 0;  // bytes
  // This program may allocate `left` bytes of the GPU's memory: other processes and CUDA itself
  // have the rest. StarPU may use `for_tensors` of these bytes. Both are 0 until the GPU is chosen.
  std::size_t left = 0, for_tensors = 0;
  int major = 0, minor = 0;  // compute capability
};

struct Gpus {
  std::vector<Gpu> found;
  std::string none_because;  // why none was found, or why one is missing; "": all were found
};
Gpus find_gpus();

struct ChosenGpus {
  std::vector<Gpu> gpus;
  std::map<int, std::string> left_out;  // the reason by GPU number; empty for "none"
};
// Reads numbers as in "0,1"; "all" and "none" give an empty list. Does not look which GPUs there
// are.
Result<std::vector<int>> gpu_numbers(const std::string& wanted);
// Chooses among the machine's GPUs. "all" means those whose numbers are below STARPU_NCUDA, if that
// is set. Of these, GPUs that cannot be used are left out with a warning. So are those beyond the
// number that StarPU was built for: StarPU would end the program. For a GPU that is named, each of
// the two is an error.
Result<ChosenGpus> choose_gpus(const std::string& wanted);

// Lets StarPU use gpu.for_tensors bytes of a GPU, unless the user has set a limit. By default
// StarPU leaves a tenth of the memory unused. Libraries take their workspace from the same memory;
// the forecast makes sure that both fit.
void let_starpu_use(const Gpu& gpu);

// Returns how many bytes of workspace a library's algorithm may use on a GPU with `memory` bytes.
// Each worker keeps one workspace.
constexpr std::size_t most_workspace(std::size_t memory) { return memory / 32; }

// Returns how many of a GPU's `free` bytes the program may allocate. CUDA needs the rest: it loads
// kernels when they are first used, and the handles of libraries keep memory.
constexpr std::size_t left_by_libraries(std::size_t free) {
  return free - std::min(std::size_t{1} << 30, free / 20);
}

// Destroys the CudaWorker of each of StarPU's CUDA workers. Call it before StarPU stops, which
// destroys the streams that they use. Only in a build with CUDA.
void release_cuda_workers();

}  // namespace omni
