// These codelets compute activations as operations of their own. Backward needs the output, or the
// input if gradient_needs_input(). Layers never submit `linear`. Convolution, connected layers and
// batch normalisation apply their activations in place by activate() or the like.
#pragma once

#include <cstdint>

#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct ActivationArgs {
  std::int64_t count = 0;
  Activation activation = Activation::relu;
};

namespace reference {

template <class T>
void activation_forward(const ActivationArgs& args, const T* src, T* dst) {
  for (std::int64_t i = 0; i < args.count; ++i)
    dst[i] = with_activation(args.activation, [&](auto f) { return f(src[i]); });
}

// Computes diff *= f' in place, so diff_dst becomes diff_src. f' is a function of `values`.
template <class T>
void activation_backward(const ActivationArgs& args, const T* values, T* diff) {
  for (std::int64_t i = 0; i < args.count; ++i)
    diff[i] *= with_activation(args.activation, [&](auto f) { return f.gradient(values[i]); });
}

}  // namespace reference

OMNI_CODELET(ActivationArgs, activation_forward);   // {src R, dst W}
OMNI_CODELET(ActivationArgs, activation_backward);  // {values R, diff RW}

}  // namespace omni
