#include "codelets/convolution/folding.hpp"

#include <algorithm>

namespace omni {
namespace {

int up_to(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

bool Folding::supports(const ConvShape& s) {
  return s.groups == 1 && s.kernel_h == s.kernel_w && s.stride_h == s.stride_w &&
         s.dilation_h == 1 && s.dilation_w == 1;
}

Folding::Folding(const ConvShape& s, int lanes) : shape_(s) {
  const int taps = (s.kernel_h + s.stride_h - 1) / s.stride_h;
  folded_ = {.n = s.n,
             .h = s.out_h() + taps - 1,
             .w = s.out_w() + taps - 1,
             .c = up_to(s.c * s.stride_h * s.stride_w, lanes),
             .filters = up_to(s.filters, lanes),
             .kernel_h = taps,
             .kernel_w = taps};
}

// Visits all values of the folded image. For pixels that become channels it calls visit(offset in
// the folded image, offset in the image, number of values). For zeros it calls visit(offset, -1,
// number of values).
void Folding::for_each_run(auto visit) const {
  const int stride = shape_.stride_h, c = shape_.c;
  const int unused = folded_.c - stride * stride * c;
  std::int64_t folded = 0;
  for (int image = 0; image < shape_.n; ++image)
    for (int y = 0; y < folded_.h; ++y)
      for (int x = 0; x < folded_.w; ++x) {
        const int column = x * stride - shape_.pad_w;
        const int before = std::clamp(-column, 0, stride),
                  inside = std::clamp(shape_.w - column, before, stride) - before;
        for (int dy = 0; dy < stride; ++dy, folded += stride * c) {
          const int row = y * stride + dy - shape_.pad_h;
          if (row < 0 || row >= shape_.h || inside == 0) {
            visit(folded, -1, stride * c);
            continue;
          }
          const std::int64_t pixel =
              (std::int64_t{image} * shape_.h + row) * shape_.w + column + before;
          const int after = stride - before - inside;
          if (before > 0) visit(folded, -1, before * c);
          visit(folded + before * c, pixel * c, inside * c);
          if (after > 0) visit(folded + (before + inside) * c, -1, after * c);
        }
        if (unused > 0) visit(folded, -1, unused);
        folded += unused;
      }
}

// Calls visit(offset in the folded kernels, offset in the kernels) once for every tap, with the
// tap's first weight.
void Folding::for_each_tap(auto visit) const {
  const int stride = shape_.stride_h, taps = folded_.kernel_h;
  for (int filter = 0; filter < shape_.filters; ++filter)
    for (int y = 0; y < shape_.kernel_h; ++y)
      for (int x = 0; x < shape_.kernel_w; ++x) {
        const std::int64_t tap = (std::int64_t{filter} * taps + y / stride) * taps + x / stride;
        visit(tap * folded_.c + (y % stride * stride + x % stride) * shape_.c,
              ((std::int64_t{filter} * shape_.kernel_h + y) * shape_.kernel_w + x) * shape_.c);
      }
}

void Folding::fold_src(const float* src, float* folded) const {
  for_each_run([=](std::int64_t to, std::int64_t from, int count) {
    if (from >= 0)
      std::copy_n(src + from, count, folded + to);
    else
      std::fill_n(folded + to, count, 0.0f);
  });
}

void Folding::unfold_src(const float* folded, bool adds, float* src) const {
  // Pixels that no step reaches have the gradient 0, so all gradients are cleared first.
  if (!adds) std::fill_n(src, shape_.src_count(), 0.0f);
  for_each_run([=](std::int64_t from, std::int64_t to, int count) {
    if (to < 0) return;
    for (int k = 0; k < count; ++k) src[to + k] += folded[from + k];
  });
}

void Folding::fold_weights(const float* weights, float* folded) const {
  std::fill_n(folded, folded_.weights_count(), 0.0f);
  for_each_tap([&](std::int64_t to, std::int64_t from) {
    std::copy_n(weights + from, shape_.c, folded + to);
  });
}

void Folding::add_unfolded_weights(const float* folded, float* weights) const {
  for_each_tap([&](std::int64_t from, std::int64_t to) {
    for (int k = 0; k < shape_.c; ++k) weights[to + k] += folded[from + k];
  });
}

void Folding::fold_dst(const float* dst, float* folded) const {
  for (std::int64_t pixel = 0; pixel < shape_.pixels(); ++pixel, folded += folded_.filters) {
    std::copy_n(dst + pixel * shape_.filters, shape_.filters, folded);
    std::fill(folded + shape_.filters, folded + folded_.filters, 0.0f);
  }
}

void Folding::unfold_dst(const float* folded, float* dst) const {
  for (std::int64_t pixel = 0; pixel < shape_.pixels(); ++pixel)
    std::copy_n(folded + pixel * folded_.filters, shape_.filters, dst + pixel * shape_.filters);
}

}  // namespace omni
