// These layers compute functions of each value, with numbers of the layer. A prelu layer has a
// slope for values below 0. A power layer computes (shift + scale * x)^power. A curve layer
// computes other functions.
#include <fmt/format.h>

#include "codelets/functions/curve.hpp"
#include "codelets/functions/power.hpp"
#include "codelets/functions/prelu.hpp"
#include "layers/layer_builder.hpp"

namespace omni {
namespace {

class PReluLayer final : public Layer {
 public:
  explicit PReluLayer(LayerBuilder& builder) : Layer(builder) {
    const auto& options = builder.options<PReluOptions>();
    const Extent extent = builder.input().extent();
    args_.learned = !options.constant;
    args_.slope = options.constant.value_or(0.0f);
    // With one slope all values are one column.
    args_.c = options.shared || options.constant ? 1 : extent.c;
    output_ = builder.blob("output", extent);
    if (!args_.learned) return;
    // A slope that all channels share has two dimensions, so that files tell it from one of the
    // only channel.
    std::vector<std::int64_t> shape{args_.c};
    if (options.shared) shape.push_back(1);
    slopes_ = &builder.param({.role = ParamRole::weights,
                              .name = "slopes",
                              .shape = std::move(shape),
                              .filler = {Filler::Kind::constant, 0.25f},
                              .by_slice = true});
    params_ = {slopes_};
  }

  std::string detail() const override {
    if (!args_.learned) return fmt::format("slope {:g}", args_.slope);
    return slopes_->shape.size() > 1 ? "one slope" : "";
  }
  double forward_flops_per_image() const override { return values_per_image(); }
  void forward(const Step&, int slice) override {
    prelu_forward.submit(args(slice), {read(input().value(slice)), write(value(slice)), slopes()},
                         forward_tag(slice));
  }
  void backward(const Step&, int slice) override {
    if (input().wants_gradient())
      prelu_backward.submit(
          args(slice),
          {read(input().value(slice)), read(diff(slice)), write(input().gradient(slice)), slopes()},
          data_gradient_tag(slice));
    if (slopes_ != nullptr)
      prelu_backward_slopes.submit(
          args(slice),
          {read(input().value(slice)), read(diff(slice)), accumulate(slopes_->gradient(slice))},
          weight_gradient_tag(slice));
  }

 private:
  PReluArgs args(int slice) const {
    PReluArgs args = args_;
    args.rows = values(slice) / args.c;
    return args;
  }
  std::optional<Access> slopes() const {
    return if_any(read, slopes_ == nullptr ? nullptr : slopes_->value);
  }
  PReluArgs args_;
  Param* slopes_ = nullptr;  // null: the slope is a constant
};

const LayerRegistration prelu_registration({.name = "prelu", .make = make_layer<PReluLayer>});

class PowerLayer final : public Layer {
 public:
  explicit PowerLayer(LayerBuilder& builder) : Layer(builder) {
    const auto& options = builder.options<PowerOptions>();
    args_.power = options.power;
    args_.scale = options.scale;
    args_.shift = options.shift;
    output_ = builder.blob("output", builder.input().extent());
  }

  std::string detail() const override {
    return fmt::format("({:g} + {:g} x)^{:g}", args_.shift, args_.scale, args_.power);
  }
  double forward_flops_per_image() const override { return 3 * values_per_image(); }
  void forward(const Step&, int slice) override {
    submit_forward(power_forward, args(slice), slice);
  }
  void backward(const Step&, int slice) override {
    if (input().wants_gradient())
      power_backward.submit(
          args(slice),
          {read(input().value(slice)), read(diff(slice)), write(input().gradient(slice))},
          data_gradient_tag(slice));
  }

 private:
  PowerArgs args(int slice) const {
    PowerArgs args = args_;
    args.count = values(slice);
    return args;
  }
  PowerArgs args_;
};

const LayerRegistration power_registration({.name = "power", .make = make_layer<PowerLayer>});

class CurveLayer final : public Layer {
 public:
  explicit CurveLayer(LayerBuilder& builder) : Layer(builder) {
    const auto& options = builder.options<CurveOptions>();
    args_.curve = options.curve;
    args_.parameter = options.parameter;
    output_ = builder.blob("output", builder.input().extent());
  }

  std::string detail() const override {
    switch (args_.curve) {
      case Curve::elu: return fmt::format("elu {:g}", args_.parameter);
      case Curve::absolute: return "absolute value";
      case Curve::softplus: return "softplus";
    }
    return "";
  }
  double forward_flops_per_image() const override { return values_per_image(); }
  void forward(const Step&, int slice) override {
    submit_forward(curve_forward, args(slice), slice);
  }
  void backward(const Step&, int slice) override {
    if (input().wants_gradient())
      curve_backward.submit(
          args(slice),
          {read(input().value(slice)), read(diff(slice)), write(input().gradient(slice))},
          data_gradient_tag(slice));
  }

 private:
  CurveArgs args(int slice) const {
    CurveArgs args = args_;
    args.count = values(slice);
    return args;
  }
  CurveArgs args_;
};

const LayerRegistration curve_registration({.name = "curve", .make = make_layer<CurveLayer>});

}  // namespace
}  // namespace omni
