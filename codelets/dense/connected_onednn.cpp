#include "codelets/dense/connected_onednn.hpp"

#ifdef OMNI_ONEDNN

#include <algorithm>

namespace omni::onednn {
namespace {

// In bf16 weights are copied before they are multiplied: so many at a time (4 MiB, or 8 where they
// are only rounded), or the copies would leave the caches.
constexpr std::int64_t kMostCopied = 1 << 21;

// Equal parts of `count`; the last may begin with what the one before it has already done.
struct Parts {
  int count, size, number;
  int first(int part) const { return std::min(part * size, count - size); }
};

Parts parts_of(int count, int values_of_each) {
  if (!factors().copied()) return {count, count, 1};
  const auto divide = [](int a, int b) { return (a + b - 1) / b; };
  const auto most = std::clamp<std::int64_t>(kMostCopied / values_of_each, 1, count);
  const int number = divide(count, static_cast<int>(most));
  return {count, divide(count, number), number};
}

}  // namespace

std::size_t connected_floats(const ConnectedShape& s) {
  const std::int64_t turned = std::int64_t{s.n} * parts_of(s.outputs, s.inputs).size;
  if (!factors().copied()) return turned;
  const std::int64_t weights = std::min(kMostCopied, s.weights_count());
  const std::int64_t copied = weights + std::max(s.src_count(), s.dst_count());
  return static_cast<std::size_t>(turned + (factors().rounded ? copied : copied / 2));
}

// Transposed, weights * src', because matmul copies its second factor, and weights are more.
void connected_forward(const ConnectedShape& s, const float* src, const float* weights, float* dst,
                       DeviceContext& context) {
  const Parts parts = parts_of(s.outputs, s.inputs);
  const Multiplier multiply({.m = parts.size,
                             .n = s.n,
                             .k = s.inputs,
                             .a = {s.inputs, 1},
                             .b = {1, s.inputs},
                             .product = {1, s.outputs}},
                            src, context);
  for (int part = 0; part < parts.number; ++part) {
    const int first = parts.first(part);
    multiply(weights + std::int64_t{first} * s.inputs, dst + first);
  }
}

void connected_backward_data(const ConnectedShape& s, const float* diff_dst, const float* weights,
                             float* diff_src, DeviceContext& context) {
  const Parts parts = parts_of(s.inputs, s.outputs);
  const ProductArgs args{.m = s.n,
                         .n = parts.size,
                         .k = s.outputs,
                         .a = {s.outputs, 1},
                         .b = {s.inputs, 1},
                         .product = {s.inputs, 1}};
  for (int part = 0; part < parts.number; ++part) {
    const int first = parts.first(part);
    Multiplier(args, weights + first, context)(diff_dst, diff_src + first);
  }
}

Multiplier connected_weights_gradient(const ConnectedShape& s, int rows, const float* src,
                                      DeviceContext& context) {
  const ProductArgs args{.m = rows,
                         .n = s.inputs,
                         .k = s.n,
                         .a = {1, s.outputs},
                         .b = {s.inputs, 1},
                         .product = {s.inputs, 1},
                         .adds = true};
  return {args, src, context};
}

}  // namespace omni::onednn

#endif
