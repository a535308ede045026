#include "layers/types/weighted_layer.hpp"

#include "codelets/elementwise/activation.hpp"
#include "layers/types/activation_option.hpp"

namespace omni {

void WeightedLayer::declare(LayerBuilder& builder, Extent extent, Param weights, FileOrder order) {
  activation_ = read_activation(builder.options(), "logistic");
  output_ = builder.blob("output", extent);
  weights_ = &builder.param(std::move(weights));
  if (builder.options().flag("batch_normalize", false)) {
    product_ = builder.blob("product", extent);
    batchnorm_.emplace(builder, extent);
    params_ = {batchnorm_->shift, batchnorm_->scale, batchnorm_->mean, batchnorm_->variance};
  } else {
    bias_ = &builder.param({.name = "bias", .shape = {extent.c}, .filler = {}});
    params_ = {bias_};
  }
  params_.insert(order == FileOrder::weights_last ? params_.end() : params_.begin() + 1, weights_);
}

void WeightedLayer::forward(const Step& step, int slice) {
  if (!batchnorm_) return multiply(slice, bias_->value, activation_, value(slice));
  multiply(slice, nullptr, Activation::linear, *product_.value[static_cast<std::size_t>(slice)]);
  batchnorm_->forward(step, slice, product_.value, output_.value, activation_, forward_tag(slice));
}

bool WeightedLayer::leave_relu_gradient() {
  activation_left_ = activation_ == Activation::relu;
  return activation_left_;
}

void WeightedLayer::backward(const Step&, int slice) {
  if (activation_ != Activation::linear && !activation_left_)
    submit_activation_backward({.count = values(slice), .activation = activation_}, value(slice),
                               diff(slice), data_gradient_tag(slice));
  if (!batchnorm_) return propagate(slice, diff(slice), bias_->diff);
  batchnorm_->backward(slice, product_.value, output_.diff, product_.diff, data_gradient_tag(slice),
                       [this](int each) {
                         propagate(each, *product_.diff[static_cast<std::size_t>(each)], nullptr);
                       });
}

}  // namespace omni
