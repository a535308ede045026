// Activations inside of other kernels, and in bf16. Those that nets are made of have kernels of
// their own; for the others one kernel chooses at every value, because 19 of each would take
// minutes to compile.
#pragma once

#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct AnyActivation {
  Activation activation;
  __device__ float operator()(float x) const {
    return with_activation(activation, [=](auto f) { return f(x); });
  }
  __device__ float gradient(float value) const {
    return with_activation(activation, [=](auto f) { return f.gradient(value); });
  }
};

void with_usual_activation(Activation activation, auto use) {
  switch (activation) {
    case Activation::linear: return use(activations::Linear{});
    case Activation::relu: return use(activations::Relu{});
    case Activation::leaky: return use(activations::Leaky{});
    default: return use(AnyActivation{activation});
  }
}

// use(f, T()) with the value type of those buffers.
void with_usual_activation(Activation activation, const Buffers& buffers, auto use) {
  with_usual_activation(activation,
                        [&](auto f) { with_values(buffers, [&](auto value) { use(f, value); }); });
}

// The same where values are in bf16; floats have a kernel for each.
template <class T, class Use>
void with_activation_of(Activation activation, Use use) {
  if constexpr (std::is_same_v<T, float>)
    with_activation(activation, use);
  else
    with_usual_activation(activation, use);
}

}  // namespace omni
