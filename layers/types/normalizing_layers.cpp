// A batchnorm layer normalises every channel over the mini-batch, then scales and shifts it. A
// normalization layer normalises locally, across neighbouring channels.
#include <fmt/format.h>

#include "codelets/normalise/lrn.hpp"
#include "layers/layer_builder.hpp"
#include "layers/types/blocks/output_blocks.hpp"

namespace omni {
namespace {

class BatchnormLayer final : public Layer {
 public:
  explicit BatchnormLayer(LayerBuilder& builder)
      : Layer(builder),
        block_(builder, builder.input().extent(), builder.options<BatchnormOptions>()) {
    const auto& options = builder.options<BatchnormOptions>();
    never_whole_ = options.counts || options.frozen;
    output_ = builder.blob("output", builder.extent());
    params_ = block_.params();
  }

  bool joins_slices() const override { return true; }
  std::string in_one_task() const override { return block_.in_one_task(); }
  bool leave_relu_gradient() override { return block_.leave_relu_gradient(); }
  bool absorb_sum(const Input& addend, Activation activation) override {
    return never_whole_ && block_.absorb_sum(addend, activation);
  }
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
  // A single task for the whole normalisation can absorb a sum only if it writes the gradient of
  // its input in place. In a batchnorm layer that gradient belongs to another layer's tensor. So
  // only layers without the single task absorb sums.
  bool never_whole_ = false;
};

class NormalizationLayer final : public Layer {
 public:
  explicit NormalizationLayer(LayerBuilder& builder) : Layer(builder) {
    const auto& options = builder.options<LocalResponseOptions>();
    const Extent extent = builder.input().extent();
    args_.c = extent.c;
    args_.size = options.size;
    args_.alpha = options.alpha;
    args_.beta = options.beta;
    args_.kappa = options.kappa;
    output_ = builder.blob("output", extent);
    scale_ = builder.per_slice("scale", extent.count());
  }

  std::string detail() const override { return fmt::format("size {}", args_.size); }
  double forward_flops_per_image() const override {
    return values_per_image() * (2 * args_.size + 4);
  }
  void forward(const Step&, int slice) override {
    lrn_forward.submit(args(slice),
                       {read(input().value(slice)), write(value(slice)), write(scale(slice))},
                       forward_tag(slice));
  }
  void backward(const Step&, int slice) override {
    if (input().wants_gradient())
      lrn_backward.submit(args(slice),
                          {read(input().value(slice)), read(value(slice)), read(scale(slice)),
                           read(diff(slice)), write(input().gradient(slice))},
                          data_gradient_tag(slice));
  }

 private:
  LrnArgs args(int slice) const {
    LrnArgs args = args_;
    args.rows = std::int64_t{images(slice)} * output_.extent.h * output_.extent.w;
    return args;
  }
  const Tensor& scale(int slice) const { return *scale_[slice]; }
  LrnArgs args_;
  std::vector<Tensor*> scale_;  // kappa + alpha * sum, for backward
};

const LayerRegistration batchnorm_registration({.name = "batchnorm",
                                                .make = make_layer<BatchnormLayer>});
const LayerRegistration normalization_registration({.name = "normalization",
                                                    .make = make_layer<NormalizationLayer>});

}  // namespace
}  // namespace omni
