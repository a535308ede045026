// These layers slide filters over the image, and apply an activation. Convolutional layers and
// their transpose, deconvolutional layers, have a bias or batch normalisation. A local layer has
// different filters at every place, and a bias for every output value.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "codelets/convolution/convolution.hpp"
#include "codelets/dense/local.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "layers/layer_builder.hpp"
#include "layers/types/blocks/output_blocks.hpp"
#include "layers/types/filter_shape.hpp"
#include "layers/types/weighted_layer.hpp"

namespace omni {
namespace {

// The following code implements convolutional layers.

// Returns the convolution of a layer's filters with its input.
ConvShape filter_shape(LayerBuilder& builder) {
  const auto& options = builder.options<FilterOptions>();
  const Extent& src = builder.extent();
  ConvShape shape{.h = src.h, .w = src.w, .c = src.c};
  shape.filters = options.filters;
  set_windows(options, shape);
  check_groups(builder, shape.c, shape.filters, shape);
  check_filter(builder, shape);
  return shape;
}

class ConvolutionalLayer final : public WeightedLayer {
 public:
  explicit ConvolutionalLayer(LayerBuilder& builder) : WeightedLayer(builder) {
    shape_ = filter_shape(builder);
    builder.input();
    const auto& options = builder.options<FilterOptions>();
    declare(builder, {shape_.out_h(), shape_.out_w(), shape_.filters}, options.normalise,
            options.activation,
            filter_weights(shape_, {.kind = Filler::Kind::normal,
                                    .scale = std::sqrt(2.0f / static_cast<float>(shape_.taps()))}));
  }

  double forward_flops_per_image() const override {
    return 2.0 * values_per_image() * shape_.taps();
  }
  bool adds_gradients() const override { return true; }
  std::string detail() const override {
    return fmt::format("{} {}", shape_.filters, window_text(shape_));
  }

 private:
  void multiply(int slice, const Tensor* bias, Activation activation, const Tensor& dst) override {
    submit_conv_forward({.shape = shape(slice), .activation = activation}, input().value(slice),
                        weights().value->for_products(), bias, dst, forward_tag(slice));
  }
  void propagate(int slice, const Tensor& diff_dst, const Tensor* diff_bias) override {
    if (input().wants_gradient())
      submit_conv_backward_data({.shape = shape(slice), .adds = input().adds}, diff_dst,
                                weights().value->for_products(), input().gradient(slice),
                                data_gradient_tag(slice));
    submit_conv_backward_weights({.shape = shape(slice), .adds = !weights().overwrites_diff},
                                 input().value(slice), diff_dst, weights().gradient(slice),
                                 diff_bias, weight_gradient_tag(slice));
  }
  ConvShape shape(int slice) const { return with_images(shape_, images(slice)); }
  ConvShape shape_;
};

const LayerRegistration convolutional_registration({.name = "convolutional",
                                                    .make = make_layer<ConvolutionalLayer>,
                                                    .in_groups = InGroups::copies});

// The following code implements deconvolutional layers. Their forward pass is the data gradient of
// a convolution, and their own data gradient is that convolution.

constexpr float kDeviation = 0.02f;  // of the initial weights, as in Darknet

// Returns the convolution that computes an image of this layer's input size from an image of its
// output size.
ConvShape transposed_shape(LayerBuilder& builder) {
  const auto& options = builder.options<FilterOptions>();
  const Extent& src = builder.extent();
  ConvShape shape{.c = options.filters, .filters = src.c};
  set_windows(options, shape);
  check_groups(builder, src.c, options.filters, shape);
  check_taps(builder, "choose a smaller size or fewer filters", shape);
  const auto side = [](int src_side, int stride, int reach, int pad) {
    return std::int64_t{src_side - 1} * stride + reach - 2 * std::int64_t{pad};
  };
  const auto h = [&] { return side(src.h, shape.stride_h, shape.reach_h(), shape.pad_h); };
  const auto w = [&] { return side(src.w, shape.stride_w, shape.reach_w(), shape.pad_w); };
  if (h() < 1 || w() < 1) {
    builder.refuse("padding",
                   fmt::format("padding of {} leaves nothing of {}x{}",
                               text_of_sides(shape.pad_w, shape.pad_h), w() + 2 * shape.pad_w,
                               h() + 2 * shape.pad_h),
                   "choose less padding or a larger size");
    shape.pad_h = shape.pad_w = 0;
  }
  // No layer may have larger sides (Extent), as the numbers would not fit an int.
  if (std::max(h(), w()) > 1 << 24) {
    builder.refuse("stride", fmt::format("output would be {}x{}", w(), h()),
                   "choose a smaller stride");
    shape.stride_h = shape.stride_w = shape.dilation_h = shape.dilation_w = 1;
  }
  shape.h = static_cast<int>(h());
  shape.w = static_cast<int>(w());
  return shape;
}

class DeconvolutionalLayer final : public WeightedLayer {
 public:
  explicit DeconvolutionalLayer(LayerBuilder& builder) : WeightedLayer(builder) {
    transposed_ = transposed_shape(builder);
    builder.input();
    const auto& options = builder.options<FilterOptions>();
    declare(builder, {transposed_.h, transposed_.w, transposed_.c}, options.normalise,
            options.activation,
            filter_weights(transposed_, {.kind = Filler::Kind::normal, .scale = kDeviation}));
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

const LayerRegistration deconvolutional_registration({.name = "deconvolutional",
                                                      .make = make_layer<DeconvolutionalLayer>,
                                                      .in_groups = InGroups::copies});

// The following class implements local layers.

class LocalLayer final : public Layer {
 public:
  explicit LocalLayer(LayerBuilder& builder) : Layer(builder) {
    const ConvShape conv = filter_shape(builder);
    builder.input();
    output_ = builder.blob("output", {conv.out_h(), conv.out_w(), conv.filters});
    activation_ = {builder, builder.options<FilterOptions>().activation, output_.extent};
    shape_.conv = conv;
    bias_ = &builder.param({.role = ParamRole::bias,
                            .name = "bias",
                            .shape = {conv.out_h(), conv.out_w(), conv.filters},
                            .filler = {},
                            .by_slice = true});
    Param weights =
        filter_weights(conv, {.kind = Filler::Kind::uniform,
                              .scale = std::sqrt(2.0f / static_cast<float>(conv.taps()))});
    weights.shape.insert(weights.shape.begin(), {conv.out_h(), conv.out_w()});
    weights.by_slice = true;
    weights_ = &builder.param(std::move(weights));
    params_ = {bias_, weights_};
  }

  double forward_flops_per_image() const override {
    return 2.0 * values_per_image() * shape_.conv.taps();
  }
  std::string detail() const override {
    return fmt::format("{} {}", shape_.conv.filters, window_text(shape_.conv));
  }
  bool allows_dropout_in_place() const override { return activation_.allows_dropout_in_place(); }
  std::string in_one_task() const override { return "bias" + fused_name(activation_.fused()); }

  void forward(const Step&, int slice) override {
    local_forward.submit({.shape = shape(slice), .activation = activation_.fused()},
                         {read(input().value(slice)), read(*weights_->value), read(*bias_->value),
                          write(activation_.target(output_, slice))},
                         forward_tag(slice));
    activation_.forward(values(slice), output_, slice, forward_tag(slice));
  }
  void backward(const Step&, int slice) override {
    activation_.backward(values(slice), output_, slice, data_gradient_tag(slice));
    if (input().wants_gradient())
      local_backward_data.submit(
          {.shape = shape(slice)},
          {read(diff(slice)), read(*weights_->value), write(input().gradient(slice))},
          data_gradient_tag(slice));
    local_backward_weights.submit(
        {.shape = shape(slice)},
        {read(input().value(slice)), read(diff(slice)), accumulate(weights_->gradient(slice)),
         accumulate(bias_->gradient(slice))},
        weight_gradient_tag(slice));
  }

 private:
  LocalShape shape(int slice) const {
    LocalShape shape = shape_;
    shape.conv.n = images(slice);
    return shape;
  }
  LocalShape shape_;
  ActivationBlock activation_;
  Param *weights_, *bias_;
};

const LayerRegistration local_registration({.name = "local",
                                            .make = make_layer<LocalLayer>,
                                            .in_groups = InGroups::copies});

}  // namespace
}  // namespace omni
