// An l2norm layer scales the channels of every pixel to a Euclidean norm of one.
#include "codelets/normalise/l2norm.hpp"
#include "layers/layer_builder.hpp"

namespace omni {
namespace {

class L2NormLayer final : public Layer {
 public:
  explicit L2NormLayer(LayerBuilder& builder) : Layer(builder) {
    output_ = builder.blob("output", builder.input().extent());
  }

  double forward_flops_per_image() const override { return 3 * values_per_image(); }
  void forward(const Step&, int slice) override {
    l2norm_forward.submit(args(slice), {read(input().value(slice)), write(value(slice))},
                          forward_tag(slice));
  }
  void backward(const Step&, int slice) override {
    if (input().wants_gradient())
      l2norm_backward.submit(
          args(slice),
          {read(input().value(slice)), read(diff(slice)), write(input().gradient(slice))},
          data_gradient_tag(slice));
  }

 private:
  L2NormArgs args(int slice) const {
    return {.rows = std::int64_t{images(slice)} * output_.extent.h * output_.extent.w,
            .c = output_.extent.c};
  }
};

const LayerRegistration l2norm_registration({.name = "l2norm", .make = make_layer<L2NormLayer>});

}  // namespace
}  // namespace omni
