#include "codelets/functions/shortcut_add.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// Returns whether both inputs have the same size. Different sizes are rare, so on cores only the
// reference adds them.
bool has_equal_sizes(const ShortcutArgs& args) { return args.a == args.b; }

void forward_vector(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict a = buffers.get<T>(0);
    const T* __restrict b = buffers.get<T>(1);
    T* __restrict dst = buffers.get<T>(2);
    with_activation(args.activation, [=, count = args.values_of(args.a), alpha = args.alpha,
                                      beta = args.beta](auto f) {
      for (std::int64_t i = 0; i < count; ++i) dst[i] = f(alpha * a[i] + beta * b[i]);
    });
  });
}

template <auto side, auto factor>
void backward_vector(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* src = buffers.get<T>(0);
    T* dst = buffers.get<T>(1);
    const std::int64_t count = args.values_of(args.*side);
    const float by = args.*factor;
    if (by == 1.0f)
      std::copy_n(src, count, dst);
    else
      for (std::int64_t i = 0; i < count; ++i) dst[i] = by * src[i];
  });
}
constexpr auto backward_a_vector = backward_vector<&ShortcutArgs::a, &ShortcutArgs::alpha>;
constexpr auto backward_b_vector = backward_vector<&ShortcutArgs::b, &ShortcutArgs::beta>;

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
  const auto a = static_cast<double>(args.values_of(args.a));
  const auto b = static_cast<double>(args.values_of(args.b));
  return {.flops = a + 2 * std::min(a, b), .bytes = 4 * (2 * a + std::min(a, b))};
}

Cost backward_a_cost(const ShortcutArgs& args) {
  const auto a = static_cast<double>(args.values_of(args.a));
  return {.flops = a, .bytes = 8 * a};
}

Cost backward_b_cost(const ShortcutArgs& args) {
  const auto a = static_cast<double>(args.values_of(args.a));
  const auto b = static_cast<double>(args.values_of(args.b));
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
