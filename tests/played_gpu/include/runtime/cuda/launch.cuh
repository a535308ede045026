// This file replaces the file of this name under runtime/, which has the `<<<>>>` that only nvcc
// knows. It hands the kernel and a copy of its arguments to the played device.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/first_launch.hpp"
#include "tests/played_gpu/kernel.hpp"

namespace omni {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  about_to_launch();
  const std::tuple<std::remove_const_t<Parameters>...> copies(
      static_cast<Parameters>(arguments)...);
  std::vector<const void*> pointers;
  const auto keep_pointer = [&]<class Argument>(const Argument& argument) {
    if constexpr (std::is_pointer_v<Argument>) pointers.push_back(argument);
  };
  std::apply([&](const auto&... each) { (keep_pointer(each), ...); }, copies);
  check(played::launch_kernel({grid, block, shared_bytes}, stream, pointers,
                              [kernel, copies] { std::apply(kernel, copies); }),
        "launching a kernel");
}

}  // namespace omni
