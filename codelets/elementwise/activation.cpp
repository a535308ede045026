// This file has the element-wise loops of the activations in activation_functors.hpp.
#include "codelets/elementwise/activation.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void forward_vector(const ActivationArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict src = buffers.get<T>(0);
    T* __restrict dst = buffers.get<T>(1);
    with_activation(args.activation, [=, count = args.count](auto f) {
      for (std::int64_t i = 0; i < count; ++i) dst[i] = f(static_cast<float>(src[i]));
    });
  });
}

void backward_vector(const ActivationArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict values = buffers.get<T>(0);
    T* __restrict diff = buffers.get<T>(1);
    with_activation(args.activation, [=, count = args.count](auto f) {
      for (std::int64_t i = 0; i < count; ++i)
        diff[i] = diff[i] * f.gradient(static_cast<float>(values[i]));
    });
  });
}

// Returns the operations per value. An exponential counts as 15; other functions count as a few.
double operations(Activation activation) {
  switch (activation) {
    case Activation::logistic:
    case Activation::tanh:
    case Activation::elu:
    case Activation::selu:
    case Activation::loggy:
    case Activation::swish:
    case Activation::mish:
    case Activation::gelu: return 20;
    default: return 2;
  }
}

Cost forward_cost(const ActivationArgs& args) {
  const auto count = static_cast<double>(args.count);
  return {.flops = count * operations(args.activation), .bytes = count * 2 * sizeof(float)};
}

Cost backward_cost(const ActivationArgs& args) {
  const auto count = static_cast<double>(args.count);
  const double each = gradient_needs_input(args.activation) ? operations(args.activation) : 2;
  return {.flops = count * (each + 1), .bytes = count * 3 * sizeof(float)};
}

constexpr std::uint32_t kActivationColor = 0xF2C14E;

}  // namespace

Codelet<ActivationArgs> activation_forward({
    .name = "activation_forward",
    .color = kActivationColor,
    .implementations = OMNI_IMPLEMENTATIONS(activation_forward, forward_vector, 0, 1),
    .cost = forward_cost,
    .footprint = footprint_by<&ActivationArgs::count, &ActivationArgs::activation>,
});

Codelet<ActivationArgs> activation_backward({
    .name = "activation_backward",
    .color = kActivationColor,
    .implementations = OMNI_IMPLEMENTATIONS(activation_backward, backward_vector, 0, 1),
    .cost = backward_cost,
    .footprint = footprint_by<&ActivationArgs::count, &ActivationArgs::activation>,
});

}  // namespace omni
