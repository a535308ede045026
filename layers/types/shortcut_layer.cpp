// [shortcut]: adds an earlier layer's output to the previous one's: the residual block.
#include <fmt/format.h>

#include "codelets/elementwise/shortcut_add.hpp"
#include "layers/registry.hpp"
#include "layers/types/blocks/activation_block.hpp"

namespace omni {
namespace {

class ShortcutLayer final : public Layer {
 public:
  explicit ShortcutLayer(LayerBuilder& builder) : Layer(builder) {
    OptionReader& options = builder.options();
    if (!options.has("from")) options.refuse("", "[shortcut] has no from", "add from=-3, say");
    from_ = builder.resolve("from", options.integer("from", -1, -(1 << 20)));
    args_.alpha = options.real("alpha", 1);
    args_.beta = options.real("beta", 1);
    args_.a = builder.input().extent();
    args_.b = builder.input_from(from_).extent();
    if (args_.a.h != args_.b.h || args_.a.w != args_.b.w)
      options.warn("from",
                   "names a layer of another width or height: every few pixels are added, as in "
                   "pjreddie's Darknet; AlexeyAB's adds what comes first in memory");
    output_ = builder.blob("output", args_.a);
    activation_ = {builder, "linear", args_.a};
    args_.activation = activation_.fused();
  }

  std::string detail() const override { return fmt::format("+ layer {}", from_); }
  std::string in_one_task() const override {
    return before_sums_ ? fmt::format("in layer {}", index() - 1)
                        : "sum" + fused_name(activation_.fused());
  }
  double forward_flops_per_image() const override { return 2 * values_per_image(); }
  bool fuse_sum_into(Layer& before) override {
    const bool plain = args_.a == args_.b && args_.alpha == 1 && args_.beta == 1 &&
                       activation_.fused() == activation_.kind();
    before_sums_ = plain && before.absorb_sum(input(1), activation_.kind());
    return before_sums_;
  }
  void forward(const Step&, int slice) override {
    if (before_sums_) return;
    shortcut_forward.submit(args(slice),
                            {read(input(0).value(slice)), read(input(1).value(slice)),
                             write(activation_.target(output_, slice))},
                            forward_tag(slice));
    activation_.forward(values(slice), output_, slice, forward_tag(slice));
  }
  void backward(const Step&, int slice) override {
    const TaskTag tag = data_gradient_tag(slice);
    if (before_sums_ && input(1).writes_gradient()) return;
    if (before_sums_ && input(1).wants_gradient())
      return residual_backward.submit(
          {.count = values(slice), .activation = activation_.kind()},
          {read(value(slice)), read_write(diff(slice)), write(input(1).gradient(slice))}, tag);
    activation_.backward(values(slice), output_, slice, tag);
    if (input(0).wants_gradient() && !before_sums_)
      shortcut_backward_a.submit(args(slice), {read(diff(slice)), write(input(0).gradient(slice))},
                                 tag);
    if (input(1).wants_gradient())
      shortcut_backward_b.submit(args(slice), {read(diff(slice)), write(input(1).gradient(slice))},
                                 tag);
  }

 private:
  ShortcutArgs args(int slice) const { return with_images(args_, images(slice)); }
  ShortcutArgs args_;
  ActivationBlock activation_;
  int from_;
  bool before_sums_ = false;  // the layer before makes our output, and has our gradient
};

const LayerRegistration shortcut_registration(
    {.name = "shortcut",
     .summary = "adds the output of an earlier layer",
     .keys = {{"from", "", "layer to add: index, or negative: relative"},
              {"activation", "linear", "applied to the sum"},
              {"alpha", "1", "factor of the previous layer's output"},
              {"beta", "1", "factor of the earlier layer's output"},
              {"weights_type", "none", "the factors are alpha and beta", Effect::refused},
              {"weights_normalization", "none", "the factors are alpha and beta", Effect::refused}},
     .make = make_layer<ShortcutLayer>});

}  // namespace
}  // namespace omni
