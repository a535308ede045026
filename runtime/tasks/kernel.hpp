// This header has the part of codelets that suffices to declare codelets and to write their
// kernels. It is small, so that nvcc compiles it quickly; the rest is in codelet.hpp.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/bf16/bf16.hpp"

namespace omni {

class DeviceContext;
template <class Args>
class Codelet;

// Buffers is the memory of a task's tensors, in the order of the task's accesses.
class Buffers {
 public:
  explicit Buffers(std::span<void* const> pointers, bool in_bf16 = false,
                   bool weights_in_bf16 = false)
      : pointers_(pointers), in_bf16_(in_bf16), weights_in_bf16_(weights_in_bf16) {}
  std::size_t count() const { return pointers_.size(); }
  // Returns true if the buffers of Implementation::in_bf16 hold bf16, and false if they hold
  // floats.
  bool in_bf16() const { return in_bf16_; }
  bool weights_in_bf16() const { return weights_in_bf16_; }  // those of maybe_in_bf16
  template <class T = float>
  T* get(std::size_t index) const {
    return static_cast<T*>(pointers_[index]);
  }

 private:
  std::span<void* const> pointers_;
  bool in_bf16_, weights_in_bf16_;
};

// Calls use(T()), where T is the type of the values in the buffers of Implementation::in_bf16.
void with_values(const Buffers& buffers, auto use) {
  if (buffers.in_bf16())
    use(Bf16());
  else
    use(float());
}

// by_values is a kernel for bf16 and floats, made from a generic one whose first argument has the
// type.
template <auto kernel, class Args>
void by_values(const Args& args, const Buffers& buffers, DeviceContext& context) {
  with_values(buffers, [&](auto value) { kernel(value, args, buffers, context); });
}

template <class Args>
using KernelFunction = void(const Args&, const Buffers&, DeviceContext&);
template <class Args>
using Kernel = KernelFunction<Args>*;

}  // namespace omni

// Declares the codelet of an operation, and its kernel on a GPU, which has the same name.
#define OMNI_CODELET(Args, operation) \
  namespace gpu {                     \
  KernelFunction<Args> operation;     \
  }                                   \
  extern Codelet<Args> operation
