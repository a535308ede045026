// What the header of an operation needs: the kernels' types, and how its codelet is declared.
#pragma once

#include "runtime/tasks/kernel.hpp"

// The codelet of an operation, and its kernel on a GPU, which has the same name.
#define OMNI_CODELET(Args, operation) \
  namespace gpu {                     \
  KernelFunction<Args> operation;     \
  }                                   \
  extern Codelet<Args> operation
