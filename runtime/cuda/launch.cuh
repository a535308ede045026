// Only launch() launches kernels. The build that plays a GPU on the CPU puts another launch() in
// front of this file. So every kernel of ours also runs where there is no GPU.
#pragma once

#include <cstddef>

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/first_launch.hpp"

namespace omni {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  about_to_launch();
  cudaGetLastError();  // "not ready", which StarPU's questions leave behind: not this launch's
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
  check(cudaPeekAtLastError(), "launching a kernel");
}

}  // namespace omni
