#include "codelets/normalise/l2norm.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// Returns the scalar product, added up in double, because backward is a small difference of large
// numbers if one channel dominates.
double dot(const float* x, const float* y, int count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int k = 0; k < count; ++k) sum += static_cast<double>(x[k]) * static_cast<double>(y[k]);
  return sum;
}

void forward_vector(const L2NormArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* src = buffers.get(0);
  float* dst = buffers.get(1);
  for (std::int64_t i = 0; i < args.rows; ++i, src += args.c, dst += args.c) {
    const double squares = dot(src, src, args.c) + kL2NormEpsilon;
    const auto factor = static_cast<float>(1 / std::sqrt(squares));
    for (int k = 0; k < args.c; ++k) dst[k] = src[k] * factor;
  }
}

void backward_vector(const L2NormArgs& args, const Buffers& buffers, DeviceContext&) {
  const float *src = buffers.get(0), *diff_dst = buffers.get(1);
  float* diff_src = buffers.get(2);
  for (std::int64_t i = 0; i < args.rows; ++i) {
    const double squares = dot(src, src, args.c) + kL2NormEpsilon;
    const double factor = 1 / std::sqrt(squares), pull = dot(src, diff_dst, args.c) / squares;
    for (int k = 0; k < args.c; ++k)
      diff_src[k] = static_cast<float>((diff_dst[k] - src[k] * pull) * factor);
    src += args.c;
    diff_dst += args.c;
    diff_src += args.c;
  }
}

std::uint64_t footprint(const L2NormArgs& args) { return footprint_of(args.rows, args.c); }

}  // namespace

Codelet<L2NormArgs> l2norm_forward({
    .name = "l2norm_forward",
    .color = 0x17becf,
    .implementations = OMNI_IMPLEMENTATIONS(l2norm_forward, forward_vector),
    .cost = cost_per_value<3, 8>,
    .footprint = footprint,
});

Codelet<L2NormArgs> l2norm_backward({
    .name = "l2norm_backward",
    .color = 0x17becf,
    .implementations = OMNI_IMPLEMENTATIONS(l2norm_backward, backward_vector),
    .cost = cost_per_value<7, 12>,
    .footprint = footprint,
});

}  // namespace omni
