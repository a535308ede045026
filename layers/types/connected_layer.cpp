// [connected]: every output sees every input, with bias or batch normalisation, and an activation.
// A large one becomes a split_connected_layer.
#include <fmt/format.h>

#include "codelets/dense/connected.hpp"
#include "layers/registry.hpp"
#include "layers/types/split_connected_layer.hpp"
#include "layers/types/weighted_layer.hpp"

namespace omni {
namespace {

class ConnectedLayer final : public WeightedLayer {
 public:
  explicit ConnectedLayer(LayerBuilder& builder) : WeightedLayer(builder) {
    const Extent src = builder.input().extent();
    shape_.inputs = static_cast<int>(src.count());
    shape_.outputs = connected_outputs(builder);
    declare(builder, {1, 1, shape_.outputs}, connected_weights(builder, src, shape_.outputs),
            FileOrder::weights_second);
  }

  double forward_flops_per_image() const override { return 2.0 * shape_.inputs * shape_.outputs; }
  std::string detail() const override { return fmt::format("{}", shape_.outputs); }

 private:
  void multiply(int slice, const Tensor* bias, Activation activation, const Tensor& dst) override {
    submit_connected_forward({.shape = shape(slice), .activation = activation},
                             input().value(slice), weights().value->for_products(),
                             optional_part(bias), dst, forward_tag(slice));
  }
  void propagate(int slice, const Tensor& diff_dst, const Tensor* diff_bias) override {
    if (input().wants_gradient())
      connected_backward_data.submit(
          {.shape = shape(slice)},
          {read(diff_dst), read(weights().value->for_products()), write(input().gradient(slice))},
          data_gradient_tag(slice));
    submit_connected_backward_weights({.shape = shape(slice), .adds = !weights().overwrites_diff},
                                      input().value(slice), diff_dst, weights().gradient(slice),
                                      optional_part(diff_bias), weight_gradient_tag(slice));
  }
  ConnectedShape shape(int slice) const { return with_images(shape_, images(slice)); }
  ConnectedShape shape_;
};

const LayerRegistration connected_registration(
    {.name = "connected",
     .aliases = {"conn"},
     .summary = "fully connected, with bias or batch normalisation, and an activation",
     .keys = {{"output", "1", "neurons"},
              {"batch_normalize", "0", "1: normalise before the activation"},
              {"weights_std", "0",
               "standard deviation of the initial weights; 0: Darknet's. Darknet has no such key"},
              {"activation", "logistic",
               "after the bias: linear relu leaky logistic tanh and more of Darknet's"}},
     .make = [](LayerBuilder& builder) -> std::unique_ptr<Layer> {
       if (splits_by_neurons(builder)) return make_split_connected_layer(builder);
       return std::make_unique<ConnectedLayer>(builder);
     },
     .in_groups = InGroups::one});

}  // namespace
}  // namespace omni
