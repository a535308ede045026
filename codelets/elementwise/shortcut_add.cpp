#include "codelets/elementwise/shortcut_add.hpp"

#include "codelets/definition.hpp"

namespace omni {
namespace {

std::int64_t values_of(const ShortcutArgs& args, const Extent& extent) {
  return static_cast<std::int64_t>(extent.count()) * args.n;
}

template <class T>
void scale_values(float factor, const T* src, T* dst, std::int64_t count) {
  if (factor == 1.0f)
    std::copy_n(src, count, dst);
  else
    for (std::int64_t i = 0; i < count; ++i) dst[i] = factor * src[i];
}

// Other sizes are rare, and left to the reference.
bool has_equal_sizes(const ShortcutArgs& args) { return args.a == args.b; }

void forward_vector(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict a = buffers.get<T>(0);
    const T* __restrict b = buffers.get<T>(1);
    T* __restrict dst = buffers.get<T>(2);
    with_activation(args.activation, [=, count = values_of(args, args.a), alpha = args.alpha,
                                      beta = args.beta](auto f) {
      for (std::int64_t i = 0; i < count; ++i) dst[i] = f(alpha * a[i] + beta * b[i]);
    });
  });
}

void backward_a_vector(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    scale_values(args.alpha, buffers.get<T>(0), buffers.get<T>(1), values_of(args, args.a));
  });
}

void backward_b_vector(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    scale_values(args.beta, buffers.get<T>(0), buffers.get<T>(1), values_of(args, args.b));
  });
}

void residual_backward_vector(const ActivationArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict dst = buffers.get<T>(0);
    T* __restrict diff = buffers.get<T>(1);
    T* __restrict diff_b = buffers.get<T>(2);
    with_activation(args.activation, [=, count = args.count](auto f) {
      for (std::int64_t i = 0; i < count; ++i) {
        const float both = diff[i] * f.gradient(static_cast<float>(dst[i]));
        diff[i] = both;
        diff_b[i] = both;
      }
    });
  });
}

Cost forward_cost(const ShortcutArgs& args) {
  const auto a = static_cast<double>(values_of(args, args.a));
  const auto b = static_cast<double>(values_of(args, args.b));
  return {.flops = a + 2 * std::min(a, b), .bytes = 4 * (2 * a + std::min(a, b))};
}

Cost backward_a_cost(const ShortcutArgs& args) {
  const auto a = static_cast<double>(values_of(args, args.a));
  return {.flops = a, .bytes = 8 * a};
}

Cost backward_b_cost(const ShortcutArgs& args) {
  const auto a = static_cast<double>(values_of(args, args.a));
  const auto b = static_cast<double>(values_of(args, args.b));
  return {.flops = std::min(a, b), .bytes = 4 * (b + std::min(a, b))};
}

std::uint64_t footprint(const ShortcutArgs& args) {
  return footprint_of(args.n, args.a.h, args.a.w, args.a.c, args.b.h, args.b.w, args.b.c,
                      args.activation, args.alpha == 1.0f, args.beta == 1.0f);
}

}  // namespace

Codelet<ShortcutArgs> shortcut_forward({
    .name = "shortcut_forward",
    .color = 0xbcbd22,
    .implementations = {{.name = "vector",
                         .kernel = forward_vector,
                         .supports = has_equal_sizes,
                         .in_bf16 = {0, 1, 2}},
                        OMNI_PLAIN_IMPLEMENTATIONS(shortcut_forward, 0, 1, 2)},
    .cost = forward_cost,
    .footprint = footprint,
    .revision = 2,
});

Codelet<ShortcutArgs> shortcut_backward_a({
    .name = "shortcut_backward_a",
    .color = 0xbcbd22,
    .implementations = OMNI_IMPLEMENTATIONS(shortcut_backward_a, backward_a_vector, 0, 1),
    .cost = backward_a_cost,
    .footprint = footprint,
});

Codelet<ShortcutArgs> shortcut_backward_b({
    .name = "shortcut_backward_b",
    .color = 0xbcbd22,
    .implementations = {{.name = "vector",
                         .kernel = backward_b_vector,
                         .supports = has_equal_sizes,
                         .in_bf16 = {0, 1}},
                        OMNI_PLAIN_IMPLEMENTATIONS(shortcut_backward_b, 0, 1)},
    .cost = backward_b_cost,
    .footprint = footprint,
});

Codelet<ActivationArgs> residual_backward({
    .name = "residual_backward",
    .color = 0xbcbd22,
    .implementations = OMNI_IMPLEMENTATIONS(residual_backward, residual_backward_vector, 0, 1, 2),
    .cost = cost_per_value<2, 16>,
    .footprint = footprint_by<&ActivationArgs::count, &ActivationArgs::activation>,
});

}  // namespace omni
