#include "layers/types/weighted_layer.hpp"

#include "layers/types/blocks/activation_block.hpp"

namespace omni {

void WeightedLayer::declare(LayerBuilder& builder, Extent extent, Param weights, FileOrder order) {
  output_ = builder.blob("output", extent);
  activation_ = {builder, "logistic", extent};
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
  if (!batchnorm_) {
    multiply(slice, bias_->value, activation_.fused(), activation_.target(output_, slice));
    return activation_.forward(values(slice), output_, slice, forward_tag(slice));
  }
  multiply(slice, nullptr, Activation::linear, *product_.value[static_cast<std::size_t>(slice)]);
  batchnorm_->forward(step, slice, product_.value, activation_.targets(output_),
                      activation_.fused(), forward_tag(slice));
  if (slice + 1 < slices().count()) return;
  for (int each = 0; each < slices().count(); ++each)
    activation_.forward(values(each), output_, each, forward_tag(each));
}

bool WeightedLayer::leave_relu_gradient() {
  activation_left_ = activation_.kind() == Activation::relu;
  return activation_left_;
}

void WeightedLayer::backward(const Step&, int slice) {
  if (!activation_left_)
    activation_.backward(values(slice), output_, slice, data_gradient_tag(slice));
  if (!batchnorm_) return propagate(slice, diff(slice), bias_->diff);
  batchnorm_->backward(slice, product_.value, output_.diff, product_.diff, data_gradient_tag(slice),
                       [this](int each) {
                         propagate(each, *product_.diff[static_cast<std::size_t>(each)], nullptr);
                       });
}

}  // namespace omni
