// What the source of an operation needs: the implementations and costs that most have in common.
#pragma once

#include "codelets/declaration.hpp"
#include "runtime/tasks/codelet.hpp"

// What every operation has: a reference, and the GPU's kernel, which takes the buffers of these
// numbers in bf16.
#define OMNI_PLAIN_IMPLEMENTATIONS(operation, ...)         \
  reference_implementation<reference::operation<float>>(), \
      OMNI_GPU_IMPLEMENTATION(gpu::operation __VA_OPT__(, ) __VA_ARGS__)

namespace omni {

// Of an operation that does so much for each of its values.
template <int flops, int bytes, class Args>
Cost cost_per_value(const Args& args) {
  double count;
  if constexpr (requires { args.count; })
    count = static_cast<double>(args.count);
  else if constexpr (requires { args.rows; })
    count = static_cast<double>(args.rows) * args.c;
  else
    count = static_cast<double>(args.n) * args.inputs;
  return {.flops = flops * count, .bytes = bytes * count};
}

}  // namespace omni
