// [local]: a convolution whose filters differ from place to place, with a bias for every output
// value, and an activation.
#include <fmt/format.h>

#include <cmath>

#include "codelets/dense/local.hpp"
#include "layers/registry.hpp"
#include "layers/types/blocks/activation_block.hpp"
#include "layers/types/filter_shape.hpp"

namespace omni {
namespace {

ConvShape read_local_shape(LayerBuilder& builder, const Extent& src) {
  OptionReader& options = builder.options();
  const int size = options.integer("size", 1, 1, 4096);
  const int stride = options.integer("stride", 1, 1, 4096);
  // As in [convolutional]. Darknet pads by 1 whatever the size, but counts (h - 1) / stride + 1
  // outputs: the two agree for a size of 3 only, which is then also what we do.
  const int pad = options.flag("pad", false) ? size / 2 : 0;
  ConvShape shape{.h = src.h, .w = src.w, .c = src.c};
  shape.filters = options.integer("filters", 1, 1, 1 << 20);
  shape.kernel_h = shape.kernel_w = size;
  shape.stride_h = shape.stride_w = stride;
  shape.pad_h = shape.pad_w = pad;
  check_filter(options, shape);
  return shape;
}

class LocalLayer final : public Layer {
 public:
  explicit LocalLayer(LayerBuilder& builder) : Layer(builder) {
    const ConvShape conv = read_local_shape(builder, builder.input().extent());
    output_ = builder.blob("output", {conv.out_h(), conv.out_w(), conv.filters});
    activation_ = {builder, "logistic", output_.extent};
    shape_.conv = conv;
    const std::int64_t locations = std::int64_t{conv.out_h()} * conv.out_w();
    bias_ = &builder.param({.name = "bias",
                            .shape = {conv.out_h(), conv.out_w(), conv.filters},
                            .filler = {},
                            .spatial = locations,
                            .channels = conv.filters,
                            .by_slice = true});
    Param weights =
        filter_weights(conv, {.kind = Filler::Kind::uniform,
                              .scale = std::sqrt(2.0f / static_cast<float>(conv.taps()))});
    weights.shape.insert(weights.shape.begin(), {conv.out_h(), conv.out_w()});
    weights.rows *= locations;
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

const LayerRegistration local_registration(
    {.name = "local",
     .summary = "convolution with filters of its own at every place, and an activation",
     .keys = {{"filters", "1", "output channels"},
              {"size", "1", "filter height and width"},
              {"stride", "1", "step of the window"},
              {"pad", "0", "1: size/2 on each side"},
              {"activation", "logistic",
               "after the bias: linear relu leaky logistic tanh and more of Darknet's"}},
     .make = make_layer<LocalLayer>,
     .in_groups = InGroups::copies});

}  // namespace
}  // namespace omni
