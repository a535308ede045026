#include "codelets/convolution/lowered_passes.hpp"

#include <algorithm>

#include "codelets/convolution/lowering.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni::lowering {
namespace {

// A band's matrices should stay in the second-level cache, but the weights are packed anew for
// every band: below so many pixels that costs more than the cache gives.
constexpr std::int64_t kBandFloats = 1 << 18, kBandPixels = 192;

// One band of output rows, and the rows of the inner convolution that it needs.
struct Band {
  RowBand rows, inner;
  int pixels, inner_pixels;
  std::int64_t first_pixel;
};

// A convolution as an inner one, which is lowered completely, for each part of the kernel that is
// left. The results of the inner ones are planes, which are shifted against each other and added.
class Lowered {
 public:
  Lowered(const Method& method, const ConvShape& shape)
      : outer_(shape),
        inner_(inner_of(method.type, shape)),
        type_(method.type),
        parts_(shape.taps() / inner_.taps()),
        rows_(rows_per_band(method)) {
    std::int64_t pixels = 0;
    for_each_band(
        [&](const Band& band) { pixels = std::max<std::int64_t>(pixels, band.inner_pixels); });
    columns_count_ = copies() ? pixels * inner_.taps() : 0;
    plane_ = pixels * shape.group_filters();
  }
  Lowered(const Method& method, const ConvShape& shape, DeviceContext& context)
      : Lowered(method, shape) {
    columns_ = context.scratch(scratch_floats());
    planes_ = columns_ + columns_count_;
  }

  std::size_t scratch_floats() const {
    return static_cast<std::size_t>(columns_count_ + (lifts() ? parts_ * plane_ : 0));
  }

  const ConvShape& inner() const { return inner_; }
  int parts() const { return parts_; }
  bool lifts() const { return type_ != Type::kernel; }
  bool copies() const { return !lowers_to_itself(inner_); }
  float* columns() const { return columns_; }
  float* plane(int part) const { return planes_ + part * plane_; }

  template <class Use>
  void for_each_band(Use use) const {
    const std::int64_t rows = std::int64_t{outer_.n} * outer_.out_h();
    const std::int64_t bands = (rows + rows_ - 1) / rows_;
    for (std::int64_t i = 0; i < bands; ++i) {
      const std::int64_t first = rows * i / bands, last = rows * (i + 1) / bands;
      const RowBand inner = inner_rows(first, last);
      use(Band{.rows = {first, last - first},
               .inner = inner,
               .pixels = static_cast<int>(last - first) * outer_.out_w(),
               .inner_pixels = static_cast<int>(inner.count) * inner_.out_w(),
               .first_pixel = first * outer_.out_w()});
    }
  }

  // The lowered matrix of a band and group.
  MatrixView lower(const Band& band, int group, const float* src) const {
    if (!copies())
      return {src + band.inner.first * inner_.out_w() * inner_.c + group * inner_.group_c(),
              inner_.c};
    im2col(inner_, group, band.inner, src, columns_);
    return {columns_, inner_.taps()};
  }

  // Where the weights begin that a part of the kernels of a group has.
  std::int64_t weights(int group, int part) const {
    return std::int64_t{group} * outer_.group_filters() * outer_.taps() +
           std::int64_t{part} * inner_.taps();
  }

  // dst: of the band's first pixel and the group.
  void lift(const Band& band, float* dst) const {
    const int count = outer_.group_filters();
    for (int pixel = 0; pixel < band.pixels; ++pixel)
      std::fill_n(dst + std::int64_t{pixel} * outer_.filters, count, 0.0f);
    for_each_term(band, [&](int part, std::int64_t inner_pixel, std::int64_t pixel) {
      const float* __restrict term = plane(part) + inner_pixel * count;
      float* __restrict sum = dst + pixel * outer_.filters;
      for (int i = 0; i < count; ++i) sum[i] += term[i];
    });
  }
  // The reverse of lift.
  void spread(const Band& band, const float* dst) const {
    const int count = outer_.group_filters();
    std::fill_n(planes_, parts_ * plane_, 0.0f);
    for_each_term(band, [&](int part, std::int64_t inner_pixel, std::int64_t pixel) {
      std::copy_n(dst + pixel * outer_.filters, count, plane(part) + inner_pixel * count);
    });
  }

 private:
  static ConvShape inner_of(Type type, ConvShape shape) {
    if (type == Type::kernel) return shape;
    shape.kernel_h = shape.stride_h = shape.dilation_h = 1, shape.pad_h = 0;
    if (type == Type::tap) shape.kernel_w = shape.stride_w = shape.dilation_w = 1, shape.pad_w = 0;
    return shape;
  }

  std::int64_t rows_per_band(const Method& method) const {
    if (method.images > 0) return std::int64_t{method.images} * outer_.out_h();
    const int across = inner_.out_w();
    const std::int64_t floats = std::int64_t{across} * (std::int64_t{inner_.taps()} +
                                                        std::int64_t{parts_} * outer_.filters);
    const std::int64_t rows = std::max(kBandFloats / floats, (kBandPixels + across - 1) / across);
    // At their edges bands need the same inner rows; with whole images there are no such edges.
    return lifts() ? std::max<std::int64_t>(rows, outer_.out_h()) : rows;
  }

  RowBand inner_rows(std::int64_t first, std::int64_t last) const {
    if (!lifts()) return {first, last - first};
    const auto row = [&](std::int64_t output, int tap) {
      const std::int64_t y = output % outer_.out_h() * outer_.stride_h - outer_.pad_h + tap;
      return output / outer_.out_h() * outer_.h + std::clamp<std::int64_t>(y, 0, outer_.h);
    };
    const std::int64_t from = row(first, 0);
    const std::int64_t to = row(last - 1, outer_.dilation_h * (outer_.kernel_h - 1) + 1);
    return {from, std::max<std::int64_t>(to - from, 0)};
  }

  // visit(part, pixel in its plane, pixel of the output), both counted from the band's first.
  template <class Visit>
  void for_each_term(const Band& band, Visit visit) const {
    const ConvShape& s = outer_;
    const int parts_across = type_ == Type::tap ? s.kernel_w : 1;
    std::int64_t pixel = 0;
    for (std::int64_t row = band.rows.first; row < band.rows.first + band.rows.count; ++row) {
      const std::int64_t image = row / s.out_h();
      const int top = static_cast<int>(row % s.out_h()) * s.stride_h - s.pad_h;
      for (int x = 0; x < s.out_w(); ++x, ++pixel)
        for (int ky = 0; ky < s.kernel_h; ++ky) {
          const int y = top + ky * s.dilation_h;
          if (y < 0 || y >= s.h) continue;
          const std::int64_t line = (image * s.h + y - band.inner.first) * inner_.out_w();
          for (int kx = 0; kx < parts_across; ++kx) {
            const int column =
                type_ == Type::tap ? x * s.stride_w - s.pad_w + kx * s.dilation_w : x;
            if (column >= 0 && column < inner_.out_w())
              visit(ky * parts_across + kx, line + column, pixel);
          }
        }
    }
  }

  ConvShape outer_, inner_;
  Type type_;
  int parts_;
  std::int64_t rows_;  // of the output, in a band
  std::int64_t columns_count_ = 0, plane_ = 0;
  float *columns_ = nullptr, *planes_ = nullptr;
};

}  // namespace

std::size_t scratch_floats(const Method& method, const ConvShape& shape) {
  return Lowered(method, shape).scratch_floats();
}

void forward(const Method& method, const ConvShape& shape, const float* src, const float* weights,
             const float* bias, Activation activation, float* dst, DeviceContext& context) {
  const Lowered lowered(method, shape, context);
  const int count = shape.group_filters();
  lowered.for_each_band([&](const Band& band) {
    float* const band_dst = dst + band.first_pixel * shape.filters;
    for (int group = 0; group < shape.groups; ++group) {
      float* const group_dst = band_dst + group * count;
      const MatrixView columns = lowered.lower(band, group, src);
      for (int part = 0; part < lowered.parts(); ++part)
        method.product(band.inner_pixels, count, lowered.inner().taps(), columns,
                       {weights + lowered.weights(group, part), shape.taps(), true}, 0.0f,
                       lowered.lifts() ? lowered.plane(part) : group_dst,
                       lowered.lifts() ? count : shape.filters);
      if (lowered.lifts()) lowered.lift(band, group_dst);
    }
    add_bias_and_activate(band.pixels, shape.filters, bias, activation, band_dst);
  });
}

void backward_weights(const Method& method, const ConvShape& shape, const float* src,
                      const float* diff_dst, float* diff_weights, float* diff_bias,
                      DeviceContext& context) {
  const Lowered lowered(method, shape, context);
  const int count = shape.group_filters(), taps = lowered.inner().taps();
  lowered.for_each_band([&](const Band& band) {
    const float* const band_diff = diff_dst + band.first_pixel * shape.filters;
    for (int group = 0; group < shape.groups; ++group) {
      const float* const group_diff = band_diff + group * count;
      const MatrixView columns = lowered.lower(band, group, src);
      if (lowered.lifts()) lowered.spread(band, group_diff);
      for (int part = 0; part < lowered.parts(); ++part)
        method.product(count, taps, band.inner_pixels,
                       lowered.lifts() ? MatrixView{lowered.plane(part), count, true}
                                       : MatrixView{group_diff, shape.filters, true},
                       columns, 1.0f, diff_weights + lowered.weights(group, part), shape.taps());
    }
    if (diff_bias != nullptr) add_column_sums(band.pixels, shape.filters, band_diff, diff_bias);
  });
}

void backward_data(const Method& method, const ConvShape& shape, const float* diff_dst,
                   const float* weights, bool adds, float* diff_src, DeviceContext& context) {
  const Lowered lowered(method, shape, context);
  const int count = shape.group_filters(), taps = lowered.inner().taps();
  // Only without lifting and copying does every value get its whole sum from one product.
  const bool assigns = !adds && !lowered.lifts() && !lowered.copies();
  if (!adds && !assigns) std::fill_n(diff_src, shape.src_count(), 0.0f);
  lowered.for_each_band([&](const Band& band) {
    for (int group = 0; group < shape.groups; ++group) {
      const float* const group_diff = diff_dst + band.first_pixel * shape.filters + group * count;
      float* const columns = lowered.copies()
                                 ? lowered.columns()
                                 : diff_src + band.inner.first * lowered.inner().out_w() * shape.c +
                                       group * shape.group_c();
      if (lowered.lifts()) lowered.spread(band, group_diff);
      for (int part = 0; part < lowered.parts(); ++part)
        method.product(band.inner_pixels, taps, count,
                       lowered.lifts() ? MatrixView{lowered.plane(part), count}
                                       : MatrixView{group_diff, shape.filters},
                       {weights + lowered.weights(group, part), shape.taps()},
                       assigns || (lowered.copies() && part == 0) ? 0.0f : 1.0f, columns,
                       lowered.copies() ? taps : shape.c);
      if (lowered.copies()) col2im(lowered.inner(), group, band.inner, columns, diff_src);
    }
  });
}

}  // namespace omni::lowering
