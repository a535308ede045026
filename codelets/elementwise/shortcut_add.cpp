#include "codelets/elementwise/shortcut_add.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

std::int64_t values_of(const ShortcutArgs& args, const Extent& extent) {
  return static_cast<std::int64_t>(extent.count()) * args.n;
}

// Calls visit(first index in a, first index in b, channels) for every position that meets another.
template <class Visit>
void for_each_position(const ShortcutArgs& args, Visit visit) {
  const ShortcutMeeting rows(args.a.h, args.b.h), columns(args.a.w, args.b.w);
  const int channels = std::min(args.a.c, args.b.c);
  for (std::int64_t image = 0; image < args.n; ++image)
    for (int y = 0; y < rows.count; ++y) {
      const std::int64_t row_a = image * args.a.h + std::int64_t{y} * rows.step_a;
      const std::int64_t row_b = image * args.b.h + std::int64_t{y} * rows.step_b;
      for (int x = 0; x < columns.count; ++x)
        visit((row_a * args.a.w + std::int64_t{x} * columns.step_a) * args.a.c,
              (row_b * args.b.w + std::int64_t{x} * columns.step_b) * args.b.c, channels);
    }
}

template <class T>
void scale_values(float factor, const T* src, T* dst, std::int64_t count) {
  if (factor == 1.0f)
    std::copy_n(src, count, dst);
  else
    for (std::int64_t i = 0; i < count; ++i) dst[i] = factor * src[i];
}

// By rows of a, whose sums are floats until they are activated.
template <class T>
void forward_by_rows(const ShortcutArgs& args, const T* a, const T* b, T* dst,
                     DeviceContext& context) {
  const ShortcutMeeting rows(args.a.h, args.b.h), columns(args.a.w, args.b.w);
  const int channels = std::min(args.a.c, args.b.c), width = args.a.w * args.a.c;
  float* const sums = context.scratch(static_cast<std::size_t>(width));
  for (std::int64_t row = 0; row < std::int64_t{args.n} * args.a.h; ++row) {
    for (int i = 0; i < width; ++i) sums[i] = args.alpha * a[row * width + i];
    const std::int64_t image = row / args.a.h, y = row % args.a.h;
    if (y % rows.step_a == 0 && y / rows.step_a < rows.count) {
      const std::int64_t met = image * args.b.h + y / rows.step_a * rows.step_b;
      for (int x = 0; x < columns.count; ++x) {
        float* const sum = sums + std::int64_t{x} * columns.step_a * args.a.c;
        const T* const addend = b + (met * args.b.w + std::int64_t{x} * columns.step_b) * args.b.c;
        for (int k = 0; k < channels; ++k) sum[k] += args.beta * addend[k];
      }
    }
    activate(args.activation, sums, static_cast<std::size_t>(width));
    std::copy_n(sums, width, dst + row * width);
  }
}

void forward_vector(const ShortcutArgs& args, const Buffers& buffers, DeviceContext& context) {
  with_values(buffers, [&]<class T>(T) {
    const T* __restrict a = buffers.get<T>(0);
    const T* __restrict b = buffers.get<T>(1);
    T* __restrict dst = buffers.get<T>(2);
    if (!(args.a == args.b)) return forward_by_rows(args, a, b, dst, context);
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
    const T* diff_dst = buffers.get<T>(0);
    T* diff_b = buffers.get<T>(1);
    const std::int64_t count = values_of(args, args.b);
    if (args.a == args.b) return scale_values(args.beta, diff_dst, diff_b, count);
    std::fill_n(diff_b, count, T(0.0f));
    for_each_position(args, [&](std::int64_t in_a, std::int64_t in_b, int channels) {
      for (int k = 0; k < channels; ++k) diff_b[in_b + k] = args.beta * diff_dst[in_a + k];
    });
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

Cost residual_backward_cost(const ActivationArgs& args) {
  const auto count = static_cast<double>(args.count);
  return {.flops = 2 * count, .bytes = 4 * 4 * count};
}

std::uint64_t residual_footprint(const ActivationArgs& args) {
  return footprint_of(args.count, args.activation);
}

std::uint64_t footprint(const ShortcutArgs& args) {
  return footprint_of(args.n, args.a.h, args.a.w, args.a.c, args.b.h, args.b.w, args.b.c,
                      args.activation, args.alpha == 1.0f, args.beta == 1.0f);
}

}  // namespace

Codelet<ShortcutArgs> shortcut_forward({
    .name = "shortcut_forward",
    .color = 0xbcbd22,
    .implementations = {{.name = "vector", .kernel = forward_vector, .in_bf16 = {0, 1, 2}},
                        reference_implementation<reference::shortcut_forward<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::shortcut_forward, 0, 1, 2)},
    .cost = forward_cost,
    .footprint = footprint,
    .revision = 2,
});

Codelet<ShortcutArgs> shortcut_backward_a({
    .name = "shortcut_backward_a",
    .color = 0xbcbd22,
    .implementations = {{.name = "vector", .kernel = backward_a_vector, .in_bf16 = {0, 1}},
                        reference_implementation<reference::shortcut_backward_a<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::shortcut_backward_a, 0, 1)},
    .cost = backward_a_cost,
    .footprint = footprint,
});

Codelet<ShortcutArgs> shortcut_backward_b({
    .name = "shortcut_backward_b",
    .color = 0xbcbd22,
    .implementations = {{.name = "vector", .kernel = backward_b_vector, .in_bf16 = {0, 1}},
                        reference_implementation<reference::shortcut_backward_b<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::shortcut_backward_b, 0, 1)},
    .cost = backward_b_cost,
    .footprint = footprint,
});

Codelet<ActivationArgs> residual_backward({
    .name = "residual_backward",
    .color = 0xbcbd22,
    .implementations = {{.name = "vector",
                         .kernel = residual_backward_vector,
                         .in_bf16 = {0, 1, 2}},
                        reference_implementation<reference::residual_backward<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::residual_backward, 0, 1, 2)},
    .cost = residual_backward_cost,
    .footprint = residual_footprint,
});

}  // namespace omni
