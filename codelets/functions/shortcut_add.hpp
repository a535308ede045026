// A residual block ends with an element-wise sum: dst = activation(alpha * a + beta * b'), where b'
// is b on the grid of a.
//
// Sizes may differ, as in Darknet. In each of h and w, stride = max(1, b / a) and sample = max(1, a
// / b), by integer division. Cell i*sample of a is added to cell i*stride of b for i < min(a, b).
// So a larger b is subsampled, and a smaller one is spread out with gaps. Channels are added one to
// one up to the smaller count. All other cells of a become alpha * a. (Darknet skips this alpha
// forward, but not backward.)
#pragma once

#include <algorithm>
#include <cstdint>

#include "codelets/elementwise/activation.hpp"
#include "runtime/extent.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct ShortcutArgs {
  int n = 0;
  Extent a, b;  // dst has the size of a
  float alpha = 1, beta = 1;
  Activation activation = Activation::linear;  // forward only

  std::int64_t values_of(const Extent& extent) const {
    return static_cast<std::int64_t>(extent.count()) * n;
  }
};

// A ShortcutMeeting tells which cells of a and b are added to each other along one dimension.
struct ShortcutMeeting {
  int count, step_a, step_b;
  ShortcutMeeting(int a, int b)
      : count(std::min(a, b)), step_a(std::max(1, a / b)), step_b(std::max(1, b / a)) {}
};

namespace reference {

// Calls visit(index in a, index in b) for every pair of values that are added.
void for_each_meeting(const ShortcutArgs& args, auto visit) {
  const ShortcutMeeting rows(args.a.h, args.b.h), columns(args.a.w, args.b.w);
  for (std::int64_t image = 0; image < args.n; ++image)
    for (int y = 0; y < rows.count; ++y)
      for (int x = 0; x < columns.count; ++x)
        for (int k = 0; k < std::min(args.a.c, args.b.c); ++k) {
          const auto index = [&](const Extent& extent, int step_y, int step_x) {
            const std::int64_t row = image * extent.h + std::int64_t{y} * step_y;
            return (row * extent.w + std::int64_t{x} * step_x) * extent.c + k;
          };
          visit(index(args.a, rows.step_a, columns.step_a),
                index(args.b, rows.step_b, columns.step_b));
        }
}

template <class T>
void shortcut_forward(const ShortcutArgs& args, const T* a, const T* b, T* dst) {
  const std::int64_t count = args.values_of(args.a);
  for (std::int64_t i = 0; i < count; ++i) dst[i] = static_cast<T>(args.alpha) * a[i];
  for_each_meeting(args, [&](std::int64_t in_a, std::int64_t in_b) {
    dst[in_a] += static_cast<T>(args.beta) * b[in_b];
  });
  activate(args.activation, dst, count);
}

template <class T>
void shortcut_backward_a(const ShortcutArgs& args, const T* diff_dst, T* diff_a) {
  const std::int64_t count = args.values_of(args.a);
  for (std::int64_t i = 0; i < count; ++i) diff_a[i] = static_cast<T>(args.alpha) * diff_dst[i];
}

template <class T>
void shortcut_backward_b(const ShortcutArgs& args, const T* diff_dst, T* diff_b) {
  std::fill_n(diff_b, args.values_of(args.b), T{0});
  for_each_meeting(args, [&](std::int64_t in_a, std::int64_t in_b) {
    diff_b[in_b] = static_cast<T>(args.beta) * diff_dst[in_a];
  });
}

template <class T>
void residual_backward(const ActivationArgs& args, const T* dst, T* diff, T* diff_b) {
  activation_backward(args, dst, diff);
  std::copy_n(diff, args.count, diff_b);
}

}  // namespace reference

OMNI_CODELET(ShortcutArgs, shortcut_forward);     // {a R, b R, dst W}
OMNI_CODELET(ShortcutArgs, shortcut_backward_a);  // {diff_dst R, diff_a W}
OMNI_CODELET(ShortcutArgs, shortcut_backward_b);  // {diff_dst R, diff_b W}
// residual_backward is for a and b of one size, without factors. It changes the gradient of dst to
// that of a, in place, and copies it for b. The gradient of the activation must not need its input.
OMNI_CODELET(ActivationArgs, residual_backward);  // {dst R, diff RW, diff_b W}

}  // namespace omni
