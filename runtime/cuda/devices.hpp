// The GPUs of this machine, before StarPU starts: which there are, and which shall compute.
#pragma once

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
  // Once chosen: what others and libraries leave, and how much of it StarPU may take for tensors.
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
// "all", "none", or numbers as in "0,1". All of them, unless STARPU_NCUDA says how many; those that
// cannot be used (StarPU would end the program) or are more than StarPU was built for are left out
// with a warning, unless they are named.
Result<ChosenGpus> choose_gpus(const std::string& wanted);

// StarPU leaves a tenth of a GPU alone, unless it is told how much it may take. For that GPU it is
// told now, if the user has not done so: all that is left. What libraries compute with is to come
// out of that, too, and the forecast sees to it that both fit.
void let_starpu_use(const Gpu& gpu);

// That an algorithm of a library may ask for on a GPU of so many bytes; each worker keeps one.
constexpr std::size_t most_workspace(std::size_t memory) { return memory / 32; }

// The libraries' handles and memory of StarPU's CUDA workers: before it stops, as it destroys the
// streams that they are bound to. Only in a build with CUDA.
void release_cuda_workers();

}  // namespace omni
