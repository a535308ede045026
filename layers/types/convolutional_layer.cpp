// [convolutional]: filters over the image, with bias or batch normalisation, and an activation.
#include <fmt/format.h>

#include <cmath>

#include "codelets/convolution/convolution.hpp"
#include "layers/registry.hpp"
#include "layers/types/filter_shape.hpp"
#include "layers/types/weighted_layer.hpp"

namespace omni {
namespace {

ConvShape read_convolution_shape(LayerBuilder& builder, const Extent& src) {
  OptionReader& options = builder.options();
  const int size = options.integer("size", 1, 1, 4096);
  const int stride = options.integer("stride", 1, 1, 4096);
  int dilation = options.integer("dilation", 1, 1, 4096);
  if (size == 1) dilation = 1;
  // pad=1 means "same" and overrides padding, as in Darknet; both count taps, as in AlexeyAB's.
  const int padding = options.integer("padding", 0, 0, 4096);
  const int taps = options.flag("pad", false) ? size / 2 : padding;
  if (dilation > 1 && 2 * taps != size - 1)
    options.warn("dilation",
                 "makes another size here than in AlexeyAB's Darknet, which leaves it out of the "
                 "size unless the padding is (size-1)/2");
  ConvShape shape{.h = src.h, .w = src.w, .c = src.c};
  shape.filters = options.integer("filters", 1, 1, 1 << 20);
  shape.kernel_h = shape.kernel_w = size;
  shape.stride_h = options.integer("stride_y", stride, 1, 4096);
  shape.stride_w = options.integer("stride_x", stride, 1, 4096);
  shape.pad_h = shape.pad_w = taps * dilation;
  shape.dilation_h = shape.dilation_w = dilation;
  shape.groups = options.integer("groups", 1, 1, 1 << 20);
  if (src.c % shape.groups != 0 || shape.filters % shape.groups != 0) {
    options.refuse("groups",
                   fmt::format("{} groups do not divide {} channels and {} filters", shape.groups,
                               src.c, shape.filters),
                   "both must be multiples of groups");
    shape.groups = 1;
  }
  check_filter(options, shape);
  return shape;
}

class ConvolutionalLayer final : public WeightedLayer {
 public:
  explicit ConvolutionalLayer(LayerBuilder& builder) : WeightedLayer(builder) {
    shape_ = read_convolution_shape(builder, builder.input().extent());
    declare(builder, {shape_.out_h(), shape_.out_w(), shape_.filters},
            filter_weights(shape_, {.kind = Filler::Kind::normal,
                                    .scale = std::sqrt(2.0f / static_cast<float>(shape_.taps()))}),
            FileOrder::weights_last);
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

constexpr std::string_view kNotBinary = "weights are floats";
constexpr std::string_view kNotDeformed = "filters are not deformed";

const LayerRegistration convolutional_registration(
    {.name = "convolutional",
     .aliases = {"conv"},
     .summary = "convolution with bias or batch normalisation, and an activation",
     .keys = {{"filters", "1", "output channels"},
              {"size", "1", "filter height and width"},
              {"stride", "1", "step of the window"},
              {"stride_x", "stride", "step along the width"},
              {"stride_y", "stride", "step along the height"},
              {"pad", "0", "1: padding=size/2"},
              {"padding", "0", "on each side, unless pad=1"},
              {"dilation", "1", "distance of the filter's taps; multiplies the padding"},
              {"groups", "1", "channels are filtered in so many separate groups"},
              {"batch_normalize", "0", "1: normalise before the activation"},
              {"activation", "logistic",
               "after the bias: linear relu leaky logistic tanh and more of Darknet's"},
              {"binary", "0", kNotBinary, Effect::refused},
              {"xnor", "0", kNotBinary, Effect::refused},
              {"flipped", "0", "it is for weights files with transposed filters", Effect::refused},
              {"antialiasing", "0", "there is no blur between the filter and the stride",
               Effect::refused},
              {"share_index", "", "layers do not share weights", Effect::refused},
              {"cbn", "0", "batches are normalised by themselves", Effect::refused},
              {"sway", "0", kNotDeformed, Effect::refused},
              {"rotate", "0", kNotDeformed, Effect::refused},
              {"stretch", "0", kNotDeformed, Effect::refused},
              {"stretch_sway", "0", kNotDeformed, Effect::refused},
              {"coordconv", "0", "no coordinates are added to the input", Effect::refused}},
     .in_vain = "assisted_excitation=0 bin_output=0 grad_centr=0 reverse=0 dot=0",
     .make = make_layer<ConvolutionalLayer>,
     .in_groups = InGroups::copies});

}  // namespace
}  // namespace omni
