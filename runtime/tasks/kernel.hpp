// What an implementation of a codelet sees: the part of codelet.hpp that is enough to declare
// codelets and to write kernels, and that nvcc reads in no time.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/tasks/access.hpp"

namespace omni {

class DeviceContext;
template <class Args>
class Codelet;

// The memory of a task's tensors, in the order of its accesses.
class Buffers {
 public:
  explicit Buffers(std::span<void* const> pointers) : pointers_(pointers) {}
  template <class T = float>
  T* get(std::size_t index) const {
    return static_cast<T*>(pointers_[index]);
  }

 private:
  std::span<void* const> pointers_;
};

template <class Args>
using KernelFunction = void(const Args&, const Buffers&, DeviceContext&);
template <class Args>
using Kernel = KernelFunction<Args>*;

}  // namespace omni
