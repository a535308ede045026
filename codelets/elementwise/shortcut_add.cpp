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

void scale_values(float factor, const float* src, float* dst, std::int64_t count) {
  if (factor == 1.0f)
    std::copy_n(src, count, dst);
  else
    for (std::int64_t i = 0; i < count; ++i) dst[i] = factor * src[i];
}

void forward_vector(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  const float *a = buffers.get(0), *b = buffers.get(1);
  float* dst = buffers.get(2);
  const std::int64_t count = values_of(args, args.a);
  if (args.a == args.b) {
    constexpr std::int64_t kBlock = 2048;  // still in the first-level cache when it is activated
    for (std::int64_t at = 0; at < count; at += kBlock) {
      const std::int64_t end = std::min(count, at + kBlock);
      for (std::int64_t i = at; i < end; ++i) dst[i] = args.alpha * a[i] + args.beta * b[i];
      activate(args.activation, dst + at, static_cast<std::size_t>(end - at));
    }
    return;
  }
  scale_values(args.alpha, a, dst, count);
  for_each_position(args, [&](std::int64_t in_a, std::int64_t in_b, int channels) {
    for (int k = 0; k < channels; ++k) dst[in_a + k] += args.beta * b[in_b + k];
  });
  activate(args.activation, dst, static_cast<std::size_t>(count));
}

void forward_reference(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::shortcut_forward(args, buffers.get(0), buffers.get(1), buffers.get(2));
}

void backward_a_vector(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  scale_values(args.alpha, buffers.get(0), buffers.get(1), values_of(args, args.a));
}

void backward_a_reference(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::shortcut_backward_a(args, buffers.get(0), buffers.get(1));
}

void backward_b_vector(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* diff_dst = buffers.get(0);
  float* diff_b = buffers.get(1);
  const std::int64_t count = values_of(args, args.b);
  if (args.a == args.b) {
    scale_values(args.beta, diff_dst, diff_b, count);
    return;
  }
  std::fill_n(diff_b, count, 0.0f);
  for_each_position(args, [&](std::int64_t in_a, std::int64_t in_b, int channels) {
    for (int k = 0; k < channels; ++k) diff_b[in_b + k] = args.beta * diff_dst[in_a + k];
  });
}

void backward_b_reference(const ShortcutArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::shortcut_backward_b(args, buffers.get(0), buffers.get(1));
}

void residual_backward_vector(const ActivationArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* __restrict dst = buffers.get(0);
  float* __restrict diff = buffers.get(1);
  float* __restrict diff_b = buffers.get(2);
  with_activation(args.activation, [=, count = args.count](auto f) {
    for (std::int64_t i = 0; i < count; ++i) diff_b[i] = diff[i] *= f.gradient(dst[i]);
  });
}

void residual_backward_reference(const ActivationArgs& args, const Buffers& buffers,
                                 DeviceContext&) {
  reference::residual_backward(args, buffers.get(0), buffers.get(1), buffers.get(2));
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
    .implementations = {{"vector", forward_vector},
                        {"reference", forward_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::shortcut_forward, 0, 1, 2)},
    .cost = forward_cost,
    .footprint = footprint,
});

Codelet<ShortcutArgs> shortcut_backward_a({
    .name = "shortcut_backward_a",
    .color = 0xbcbd22,
    .implementations = {{"vector", backward_a_vector},
                        {"reference", backward_a_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::shortcut_backward_a, 0, 1)},
    .cost = backward_a_cost,
    .footprint = footprint,
});

Codelet<ShortcutArgs> shortcut_backward_b({
    .name = "shortcut_backward_b",
    .color = 0xbcbd22,
    .implementations = {{"vector", backward_b_vector},
                        {"reference", backward_b_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::shortcut_backward_b, 0, 1)},
    .cost = backward_b_cost,
    .footprint = footprint,
});

Codelet<ActivationArgs> residual_backward({
    .name = "residual_backward",
    .color = 0xbcbd22,
    .implementations = {{"vector", residual_backward_vector},
                        {"reference", residual_backward_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::residual_backward, 0, 1, 2)},
    .cost = residual_backward_cost,
    .footprint = residual_footprint,
});

void submit_shortcut_forward(const ShortcutArgs& args, const Tensor& a, const Tensor& b,
                             const Tensor& dst, TaskTag tag) {
  shortcut_forward.submit(args, {read(a), read(b), write(dst)}, tag);
}

void submit_shortcut_backward_a(const ShortcutArgs& args, const Tensor& diff_dst,
                                const Tensor& diff_a, TaskTag tag) {
  shortcut_backward_a.submit(args, {read(diff_dst), write(diff_a)}, tag);
}

void submit_shortcut_backward_b(const ShortcutArgs& args, const Tensor& diff_dst,
                                const Tensor& diff_b, TaskTag tag) {
  shortcut_backward_b.submit(args, {read(diff_dst), write(diff_b)}, tag);
}

void submit_residual_backward(const ActivationArgs& args, const Tensor& dst, const Tensor& diff,
                              const Tensor& diff_b, TaskTag tag) {
  residual_backward.submit(args, {read(dst), read_write(diff), write(diff_b)}, tag);
}

}  // namespace omni
