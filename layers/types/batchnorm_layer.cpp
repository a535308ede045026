// [batchnorm]: normalises every channel over the mini-batch, then scales and shifts it.
#include "layers/registry.hpp"
#include "layers/types/blocks/batchnorm_block.hpp"

namespace omni {
namespace {

class BatchnormLayer final : public Layer {
 public:
  explicit BatchnormLayer(LayerBuilder& builder)
      : Layer(builder), block_(builder, builder.input().extent(), Activation::linear) {
    output_ = builder.blob("output", builder.extent_of(builder.index() - 1));
    block_.shift->in_weights_file = false;  // Darknet's files have none for this layer
    params_ = {block_.shift, block_.scale, block_.mean, block_.variance};
  }

  bool joins_slices() const override { return true; }
  double forward_flops_per_image() const override { return 4 * values_per_image(); }
  void forward(const Step& step, int slice) override {
    block_.forward(step, slice, input().blob->value, output_.value, forward_tag(slice));
  }
  void backward(const Step&, int slice) override {
    block_.backward(slice, input().blob->value, output_, input().diff, data_gradient_tag(slice),
                    [](int) {});
  }

 private:
  BatchnormBlock block_;
};

const LayerRegistration batchnorm_registration(
    {.name = "batchnorm",
     .summary = "batch normalisation with scale and shift",
     .make = make_layer<BatchnormLayer>});

}  // namespace
}  // namespace omni
