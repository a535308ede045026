#include "tests/played_gpu/dnn/loops.hpp"

#include <algorithm>
#include <vector>

#include "tests/played_gpu/rounding.hpp"

namespace omni::played {
namespace {

using Index = std::ptrdiff_t;

// Layout gives the offsets of a pixel's channels, and of a group within them.
struct Layout {
  explicit Layout(const Convolution& s)
      : shape(s), group_c(s.c / s.groups), group_k(s.k / s.groups) {}
  Index x(Index n, Index h, Index w) const { return ((n * shape.h + h) * shape.w + w) * shape.c; }
  Index y(Index n, Index p, Index q) const {
    return ((n * shape.out_h + p) * shape.out_w + q) * shape.k;
  }
  Index filter(Index k, Index r, Index s) const {
    return ((k * shape.filter_h + r) * shape.filter_w + s) * group_c;
  }
  const Convolution& shape;
  const Index group_c, group_k;
};

// Calls `call` with every (p, q, h, w) where the filter's element (r, s) connects pixel (h, w) of x
// with pixel (p, q) of y.
template <class Call>
void for_each_meeting(const Convolution& shape, int r, int s, Call call) {
  for (int p = 0; p < shape.out_h; ++p) {
    const int h = p * shape.stride[0] - shape.pad[0] + r * shape.dilation[0];
    if (h < 0 || h >= shape.h) continue;
    for (int q = 0; q < shape.out_w; ++q) {
      const int w = q * shape.stride[1] - shape.pad[1] + s * shape.dilation[1];
      if (w >= 0 && w < shape.w) call(p, q, h, w);
    }
  }
}

template <class Call>
void for_each_filter_element(const Convolution& shape, Call call) {
  for (int r = 0; r < shape.filter_h; ++r)
    for (int s = 0; s < shape.filter_w; ++s) call(r, s);
}

void add_scaled(double* sum, double scale, const float* values, Index count) {
  for (Index i = 0; i < count; ++i) sum[i] += scale * values[i];
}

void store(const std::vector<double>& sums, float beta, float* target) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double kept = beta == 0 ? 0 : double{beta} * target[i];
    target[i] = static_cast<float>(sums[i] + kept);
  }
}

}  // namespace

void forward(const Convolution& shape, const float* x_values, const float* filters, float* y) {
  const Layout at(shape);
  const Factors x(x_values, shape.x_count(), shape.mantissa);
  const Factors filter(filters, shape.filter_count(), shape.mantissa);
  // `turned` has the filters' values at element (r, s) with k as the last index, so that the inner
  // loop reads consecutive values.
  std::vector<double> sums(shape.y_count());
  std::vector<float> turned(static_cast<std::size_t>(at.group_c * shape.k));
  for_each_filter_element(shape, [&](int r, int s) {
    for (Index k = 0; k < shape.k; ++k)
      for (Index c = 0; c < at.group_c; ++c)
        turned[static_cast<std::size_t>(c * shape.k + k)] = filter.begin()[at.filter(k, r, s) + c];
    for (int n = 0; n < shape.n; ++n)
      for_each_meeting(shape, r, s, [&](int p, int q, int h, int w) {
        for (Index group = 0; group < shape.groups; ++group)
          for (Index c = 0; c < at.group_c; ++c)
            add_scaled(sums.data() + at.y(n, p, q) + group * at.group_k,
                       x.begin()[at.x(n, h, w) + group * at.group_c + c],
                       turned.data() + c * shape.k + group * at.group_k, at.group_k);
      });
  });
  store(sums, 0, y);
}

void backward_data(const Convolution& shape, const float* filters, const float* diff_y_values,
                   float beta, float* diff_x) {
  const Layout at(shape);
  const Factors filter(filters, shape.filter_count(), shape.mantissa);
  const Factors diff_y(diff_y_values, shape.y_count(), shape.mantissa);
  std::vector<double> sums(shape.x_count());
  for_each_filter_element(shape, [&](int r, int s) {
    for (int n = 0; n < shape.n; ++n)
      for_each_meeting(shape, r, s, [&](int p, int q, int h, int w) {
        for (Index k = 0; k < shape.k; ++k)
          add_scaled(sums.data() + at.x(n, h, w) + k / at.group_k * at.group_c,
                     diff_y.begin()[at.y(n, p, q) + k], filter.begin() + at.filter(k, r, s),
                     at.group_c);
      });
  });
  store(sums, beta, diff_x);
}

void backward_filter(const Convolution& shape, const float* x_values, const float* diff_y_values,
                     float beta, float* diff_filter) {
  const Layout at(shape);
  const Factors x(x_values, shape.x_count(), shape.mantissa);
  const Factors diff_y(diff_y_values, shape.y_count(), shape.mantissa);
  std::vector<double> sums(shape.filter_count());
  for_each_filter_element(shape, [&](int r, int s) {
    for (int n = 0; n < shape.n; ++n)
      for_each_meeting(shape, r, s, [&](int p, int q, int h, int w) {
        for (Index k = 0; k < shape.k; ++k)
          add_scaled(sums.data() + at.filter(k, r, s), diff_y.begin()[at.y(n, p, q) + k],
                     x.begin() + at.x(n, h, w) + k / at.group_k * at.group_c, at.group_c);
      });
  });
  store(sums, beta, diff_filter);
}

}  // namespace omni::played
