// The product of two tensors of equal size, value by value. The gradient of one factor is another
// such product: that of the gradient and the other factor.
#pragma once

#include <cstdint>

#include "runtime/tasks/kernel.hpp"

namespace omni {

struct MultiplyElementsArgs {
  std::int64_t count = 0;
};

namespace reference {

template <class T>
void multiply_elements(const MultiplyElementsArgs& args, const T* a, const T* b, T* dst) {
  for (std::int64_t i = 0; i < args.count; ++i) dst[i] = a[i] * b[i];
}

}  // namespace reference

OMNI_CODELET(MultiplyElementsArgs, multiply_elements);  // {a R, b R, dst W}

}  // namespace omni
