#include "codelets/dense/local.hpp"

#include <limits>

#include "codelets/convolution/lowering.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/dense/onednn_support.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// The following code computes one matrix product per location, over the images of the slice. So
// every weight is read once.

// A PatchRow has the patches of one row of the output: for every image, out_w rows of taps()
// values.
class PatchRow {
 public:
  PatchRow(const ConvShape& shape, DeviceContext& context)
      : shape_(shape),
        per_image_(std::int64_t{shape.out_w()} * shape.taps()),
        patches_(context.scratch(floats(shape))) {}

  static std::size_t floats(const ConvShape& shape) {
    return static_cast<std::size_t>(std::int64_t{shape.n} * shape.out_w() * shape.taps());
  }

  void gather(int y, const float* src) {
    for_each_image([&](RowBand band, float* rows) { im2col(shape_, 0, band, src, rows); }, y);
  }
  void scatter_add(int y, float* diff_src) {
    for_each_image([&](RowBand band, float* rows) { col2im(shape_, 0, band, rows, diff_src); }, y);
  }
  // Returns the patches of location x. There is one row per image, and rows are `stride` apart.
  float* at(int x) const { return patches_ + std::int64_t{x} * shape_.taps(); }
  int stride() const { return static_cast<int>(per_image_); }

 private:
  void for_each_image(auto use, int y) {
    for (std::int64_t image = 0; image < shape_.n; ++image)
      use(RowBand{.first = image * shape_.out_h() + y, .count = 1}, patches_ + image * per_image_);
  }
  const ConvShape& shape_;
  std::int64_t per_image_;
  float* patches_;
};

// Calls use(x, weights of the location, offset of its filters in an image of dst) for a row of
// locations.
void for_each_location(const ConvShape& s, int y, auto* weights, auto use) {
  for (int x = 0; x < s.out_w(); ++x) {
    const std::int64_t location = std::int64_t{y} * s.out_w() + x;
    use(x, weights + location * s.weights_count(), location * s.filters);
  }
}

#ifdef OMNI_ONEDNN
// With more than kRows rows oneDNN first copies the weights, which takes longer than the product.
// So it gets kRows rows at a time. The weights of the location are still in the cache for the next
// rows.
constexpr int kRows = 8;

void onednn_rows(int m, int n, int k, MatrixView a, MatrixView b, float keep, float* product,
                 int product_stride) {
  for (int first = 0; first < m; first += kRows)
    onednn::gemm(std::min(kRows, m - first), n, k,
                 {a.data + std::int64_t{first} * a.stride, a.stride}, b, keep,
                 product + std::int64_t{first} * product_stride, product_stride);
}
#endif

template <Gemm product>
void forward_gemm(const LocalForwardArgs& args, const Buffers& buffers, DeviceContext& context) {
  const ConvShape& s = args.shape.conv;
  const int outputs = args.shape.outputs();
  float* const dst = buffers.get(3);
  PatchRow patches(s, context);
  for (int y = 0; y < s.out_h(); ++y) {
    patches.gather(y, buffers.get(0));
    for_each_location(s, y, buffers.get(1), [&](int x, const float* weights, std::int64_t at) {
      product(s.n, s.filters, s.taps(), {patches.at(x), patches.stride()},
              {weights, s.taps(), true}, 0.0f, dst + at, outputs);
    });
  }
  add_bias_and_activate(s.n, outputs, buffers.get(2), args.activation, dst);
}

template <Gemm product>
void backward_weights_gemm(const LocalBackwardArgs& args, const Buffers& buffers,
                           DeviceContext& context) {
  const ConvShape& s = args.shape.conv;
  const int outputs = args.shape.outputs();
  const float* const diff_dst = buffers.get(1);
  PatchRow patches(s, context);
  for (int y = 0; y < s.out_h(); ++y) {
    patches.gather(y, buffers.get(0));
    for_each_location(s, y, buffers.get(2), [&](int x, float* diff_weights, std::int64_t at) {
      product(s.filters, s.taps(), s.n, {diff_dst + at, outputs, true},
              {patches.at(x), patches.stride()}, 1.0f, diff_weights, s.taps());
    });
  }
  add_column_sums(s.n, outputs, diff_dst, buffers.get(3));
}

template <Gemm product>
void backward_data_gemm(const LocalBackwardArgs& args, const Buffers& buffers,
                        DeviceContext& context) {
  const ConvShape& s = args.shape.conv;
  const float* const diff_dst = buffers.get(0);
  float* const diff_src = buffers.get(2);
  std::fill_n(diff_src, s.src_count(), 0.0f);
  PatchRow patches(s, context);
  for (int y = 0; y < s.out_h(); ++y) {
    for_each_location(s, y, buffers.get(1), [&](int x, const float* weights, std::int64_t at) {
      product(s.n, s.taps(), s.filters, {diff_dst + at, args.shape.outputs()}, {weights, s.taps()},
              0.0f, patches.at(x), patches.stride());
    });
    patches.scatter_add(y, diff_src);
  }
}

// Returns whether the distance of two rows fits BLAS's integers of 31 bits.
bool patches_countable(const auto& args) {
  const ConvShape& s = args.shape.conv;
  return std::int64_t{s.out_w()} * s.taps() <= std::numeric_limits<int>::max();
}

WorkingFloats patch_floats(const auto& args, BufferSet) {
  return {.scratch = PatchRow::floats(args.shape.conv)};
}

// The lowered matrix is made in bf16, so its images are not copied.
template <Pass pass>
WorkingFloats local_factors(const auto& args, BufferSet in_bf16) {
  const std::int64_t weights = args.shape.weights_count(), dst = args.shape.conv.dst_count();
  return rounded_factors(in_bf16, {pass == Pass::backward_data ? dst : 0,
                                   pass == Pass::backward_weights ? dst : weights});
}

// The following functions return cost and footprint.

// The cost is the same for all three passes: they multiply the same pairs, and access tensors of
// the same sizes.
Cost local_cost(const auto& args) {
  const ConvShape& s = args.shape.conv;
  return {.flops = 2.0 * static_cast<double>(s.dst_count()) * s.taps(),
          .bytes = 4.0 *
                   static_cast<double>(s.src_count() + args.shape.weights_count() + s.dst_count())};
}

template <class... More>
std::uint64_t local_footprint(const ConvShape& s, More... more) {
  return in_precision(footprint_of(s.n, s.h, s.w, s.c, s.filters, s.kernel_h, s.kernel_w,
                                   s.stride_h, s.stride_w, s.pad_h, s.pad_w, more...));
}

std::uint64_t forward_footprint(const LocalForwardArgs& args) {
  return local_footprint(args.shape.conv, args.activation);
}

std::uint64_t backward_footprint(const LocalBackwardArgs& args) {
  return local_footprint(args.shape.conv);
}

}  // namespace

Codelet<LocalForwardArgs> local_forward({
    .name = "local_forward",
    .color = 0x1f77b4,
    .implementations =
        {
#ifdef OMNI_ONEDNN
            {"onednn", forward_gemm<onednn_rows>, patches_countable, Role::fast, patch_floats},
#endif
            {"gemm", forward_gemm<gemm>, patches_countable, Role::fast, patch_floats},
            reference_implementation<reference::local_forward<float>>(),
            OMNI_GPU_PRODUCT(gpu::local_forward, local_factors<Pass::forward>, {})},
    .cost = local_cost<LocalForwardArgs>,
    .footprint = forward_footprint,
});

Codelet<LocalBackwardArgs> local_backward_weights({
    .name = "local_backward_weights",
    .color = 0xd62728,
    .implementations =
        {
#ifdef OMNI_ONEDNN
            {"onednn", backward_weights_gemm<onednn::gemm>, patches_countable, Role::fast,
             patch_floats},
#endif
            {"gemm", backward_weights_gemm<gemm>, patches_countable, Role::fast, patch_floats},
            reference_implementation<reference::local_backward_weights<float>>(),
            OMNI_GPU_PRODUCT(gpu::local_backward_weights, local_factors<Pass::backward_weights>,
                             {})},
    .cost = local_cost<LocalBackwardArgs>,
    .footprint = backward_footprint,
});

Codelet<LocalBackwardArgs> local_backward_data({
    .name = "local_backward_data",
    .color = 0xff7f0e,
    .implementations =
        {
#ifdef OMNI_ONEDNN
            {"onednn", backward_data_gemm<onednn::gemm>, patches_countable, Role::fast,
             patch_floats},
#endif
            {"gemm", backward_data_gemm<gemm>, patches_countable, Role::fast, patch_floats},
            reference_implementation<reference::local_backward_data<float>>(),
            OMNI_GPU_PRODUCT(gpu::local_backward_data, local_factors<Pass::backward_data>, {})},
    .cost = local_cost<LocalBackwardArgs>,
    .footprint = backward_footprint,
});

}  // namespace omni
