// WeightedLayer is the base of convolutional and connected layers: a product of input and weights,
// then bias or batch normalisation, then an activation. Derived classes compute the product.
#pragma once

#include <optional>
#include <vector>

#include "layers/layer_builder.hpp"
#include "layers/types/blocks/output_blocks.hpp"

namespace omni {

class WeightedLayer : public Layer {
 public:
  bool joins_slices() const override { return batchnorm_.has_value(); }
  void forward(const Step& step, int slice) override;
  void backward(const Step& step, int slice) override;
  std::string in_one_task() const override {
    return batchnorm_ ? batchnorm_->in_one_task() : "bias" + fused_name(activation_.fused());
  }
  bool leave_relu_gradient() override;
  bool allows_dropout_in_place() const override {
    return !batchnorm_ && activation_.allows_dropout_in_place();
  }
  bool absorb_sum(const Input& addend, Activation activation) override {
    return batchnorm_ && batchnorm_->absorb_sum(addend, activation);
  }

 protected:
  explicit WeightedLayer(LayerBuilder& builder) : Layer(builder) {}
  // Declares the tensors and parameters. The derived class's constructor calls it once it knows the
  // shapes.
  void declare(LayerBuilder& builder, Extent output, bool normalise, Activation activation,
               Param weights);

  // Submits dst = activation(product + bias). `bias` may be null.
  virtual void multiply(int slice, const Tensor* bias, Activation activation,
                        const Tensor& dst) = 0;
  // Submits the gradients of the weights, the bias and the input. `diff_dst` is the product's
  // gradient; `diff_bias` may be null.
  virtual void propagate(int slice, const Tensor& diff_dst, const Tensor* diff_bias) = 0;

  const Param& weights() const { return *weights_; }

 private:
  Param* weights_ = nullptr;
  // `bias_` is null if the layer has batch normalisation.
  Param* bias_ = nullptr;
  ActivationBlock activation_;
  bool activation_left_ = false;  // true: the next layer computes the gradient of the activation
  // With batch normalisation, this block also applies the activation, and reads product_ (by
  // slice).
  std::optional<BatchnormBlock> batchnorm_;
  std::vector<Tensor*> product_;
};

}  // namespace omni
