#include "layers/types/weighted_layer.hpp"

#include <utility>

namespace omni {

void WeightedLayer::declare(LayerBuilder& builder, Extent extent, bool normalise,
                            Activation activation, Param weights) {
  output_ = builder.blob("output", extent);
  weights.by_slice = weights.can_overwrite_diff = weights.in_products = true;
  weights_ = &builder.param(std::move(weights));
  if (normalise) {
    product_ = builder.per_slice("product", output_.extent.count(), builder.values());
    batchnorm_.emplace(builder, extent, BatchnormOptions{.activation = activation});
    params_ = batchnorm_->params();
  } else {
    activation_ = {builder, activation, extent};
    bias_ = &builder.param({.role = ParamRole::bias,
                            .name = "bias",
                            .shape = {extent.c},
                            .filler = {},
                            .by_slice = true});
    params_ = {bias_};
  }
  params_.push_back(weights_);
}

void WeightedLayer::forward(const Step& step, int slice) {
  if (batchnorm_) {
    multiply(slice, nullptr, Activation::linear, *product_[slice]);
    return batchnorm_->forward(step, slice, product_, output_.value, forward_tag(slice));
  }
  multiply(slice, bias_->value, activation_.fused(), activation_.target(output_, slice));
  activation_.forward(values(slice), output_, slice, forward_tag(slice));
}

bool WeightedLayer::leave_relu_gradient() {
  if (batchnorm_) return batchnorm_->leave_relu_gradient();
  activation_left_ = activation_.kind() == Activation::relu;
  return activation_left_;
}

void WeightedLayer::backward(const Step&, int slice) {
  // The gradient of the product overwrites that of the output, which no task reads again.
  if (batchnorm_)
    return batchnorm_->backward(slice, product_, output_, output_.diff, data_gradient_tag(slice),
                                [this](int each) { propagate(each, diff(each), nullptr); });
  const Tensor* diff_bias = &bias_->gradient(slice);
  if (!activation_left_ && activation_.kind() != Activation::linear) {
    if (slices().count() == 1)
      activation_.backward(values(slice), output_, slice, *std::exchange(diff_bias, nullptr),
                           data_gradient_tag(slice));
    else
      activation_.backward(values(slice), output_, slice, data_gradient_tag(slice));
  }
  propagate(slice, diff(slice), diff_bias);
}

}  // namespace omni
