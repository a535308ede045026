// launch() is the only function that launches kernels. The build that plays a GPU on the CPU
// replaces this file, so every kernel of ours also runs where there is no GPU.
#pragma once

#include <cstddef>

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/first_launch.hpp"

namespace omni {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  about_to_launch();
  cudaGetLastError();  // clears the "not ready" of StarPU's queries, no error of this launch
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
  check(cudaPeekAtLastError(), "launching a kernel");
}

}  // namespace omni
