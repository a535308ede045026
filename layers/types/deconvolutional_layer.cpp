// [deconvolutional]: the transpose of a convolution, whose gradient of the data is this layer's
// forward pass and the other way round; with bias or batch normalisation, and an activation.
#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "codelets/convolution/convolution.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "layers/registry.hpp"
#include "layers/types/filter_shape.hpp"
#include "layers/types/weighted_layer.hpp"

namespace omni {
namespace {

constexpr float kDeviation = 0.02f;  // of the first weights, as in Darknet

// The convolution that makes an image of our input's size from one of our output's.
ConvShape read_transposed(LayerBuilder& builder, const Extent& src) {
  OptionReader& options = builder.options();
  int size = options.integer("size", 1, 1, 4096);
  int stride = options.integer("stride", 1, 1, 4096);
  const int padding = options.integer("padding", 0, 0, 4096);
  const bool half = options.flag("pad", false);
  int pad = half ? size / 2 : padding;  // pad=1 overrides, as in Darknet
  int channels = options.integer("filters", 1, 1, 1 << 20);
  if (std::int64_t{size} * size * channels > std::numeric_limits<int>::max()) {
    options.refuse("size",
                   fmt::format("a filter of {0}x{0}x{1} has too many elements", size, channels),
                   "choose a smaller size or fewer filters");
    size = 1;
  }
  const auto side = [&](int src_side) {
    return std::int64_t{src_side - 1} * stride + size - 2 * std::int64_t{pad};
  };
  if (side(src.h) < 1 || side(src.w) < 1) {
    options.refuse(half ? "pad" : "padding",
                   fmt::format("padding of {} leaves nothing of {}x{}", pad, side(src.w) + 2 * pad,
                               side(src.h) + 2 * pad),
                   "choose less padding or a larger size");
    pad = 0;
  }
  // The largest side that any layer may have, see Extent; beyond it, an int would not do.
  if (std::max(side(src.h), side(src.w)) > 1 << 24) {
    options.refuse("stride", fmt::format("output would be {}x{}", side(src.w), side(src.h)),
                   "choose a smaller stride");
    stride = 1;
  }
  return {.h = static_cast<int>(side(src.h)),
          .w = static_cast<int>(side(src.w)),
          .c = channels,
          .filters = src.c,
          .kernel_h = size,
          .kernel_w = size,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = pad,
          .pad_w = pad};
}

class DeconvolutionalLayer final : public WeightedLayer {
 public:
  explicit DeconvolutionalLayer(LayerBuilder& builder) : WeightedLayer(builder) {
    transposed_ = read_transposed(builder, builder.input().extent());
    declare(builder, {transposed_.h, transposed_.w, transposed_.c},
            filter_weights(transposed_, {.kind = Filler::Kind::normal, .scale = kDeviation}),
            FileOrder::weights_last);
  }

  double forward_flops_per_image() const override {
    return 2.0 * static_cast<double>(transposed_.dst_count()) * transposed_.taps();
  }
  std::string detail() const override {
    return fmt::format("{} {}", transposed_.c, window_text(transposed_));
  }

 private:
  void multiply(int slice, const Tensor* bias, Activation activation, const Tensor& dst) override {
    submit_conv_backward_data({.shape = shape(slice)}, input().value(slice),
                              weights().value->for_products(), dst, forward_tag(slice));
    if (bias != nullptr)
      channel_bias_forward.submit(
          {.rows = rows(slice), .c = transposed_.c, .activation = activation},
          {read(*bias), read_write(dst)}, forward_tag(slice));
  }
  void propagate(int slice, const Tensor& diff_dst, const Tensor* diff_bias) override {
    if (input().wants_gradient())
      submit_conv_forward({.shape = shape(slice)}, diff_dst, weights().value->for_products(),
                          nullptr, input().gradient(slice), data_gradient_tag(slice));
    submit_conv_backward_weights({.shape = shape(slice), .adds = !weights().overwrites_diff},
                                 diff_dst, input().value(slice), weights().gradient(slice), nullptr,
                                 weight_gradient_tag(slice));
    if (diff_bias != nullptr)
      submit_channel_bias_backward({.rows = rows(slice), .c = transposed_.c}, diff_dst, *diff_bias,
                                   nullptr, weight_gradient_tag(slice));
  }
  std::int64_t rows(int slice) const { return values(slice) / transposed_.c; }
  ConvShape shape(int slice) const { return with_images(transposed_, images(slice)); }
  ConvShape transposed_;
};

const LayerRegistration deconvolutional_registration(
    {.name = "deconvolutional",
     .aliases = {"deconv"},
     .summary = "transposed convolution with bias or batch normalisation, and an activation",
     .keys = {{"filters", "1", "output channels"},
              {"size", "1", "filter height and width"},
              {"stride", "1", "enlarges the image"},
              {"pad", "0", "1: padding=size/2"},
              {"padding", "0", "taken off each side, unless pad=1"},
              {"batch_normalize", "0", "1: normalise before the activation"},
              {"activation", "logistic",
               "after the bias: linear relu leaky logistic tanh and more of Darknet's"}},
     .make = make_layer<DeconvolutionalLayer>,
     .in_groups = InGroups::copies});

}  // namespace
}  // namespace omni
