#include "layers/types/blocks/activation_block.hpp"

#include <fmt/format.h>

#include "codelets/elementwise/activation.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni {

Activation read_activation(OptionReader& options, std::string_view fallback) {
  options.refuse_values(
      "activation",
      {"normalize_channels", "normalize_channels_softmax", "normalize_channels_softmax_maxval"},
      "it mixes channels; only element-wise ones are");
  return static_cast<Activation>(options.choice("activation", fallback, kActivationNames));
}

ActivationBlock::ActivationBlock(LayerBuilder& builder, std::string_view fallback, Extent extent)
    : kind_(read_activation(builder.options(), fallback)) {
  if (gradient_needs_input(kind_))
    before_ = builder.per_slice("before", extent.count(), builder.values());
}

std::string fused_name(Activation activation) {
  if (activation == Activation::linear) return "";
  return fmt::format(" {}", activation_name(activation));
}

bool ActivationBlock::allows_dropout_in_place() const {
  return !before_.empty() || kind_ == Activation::linear || kind_ == Activation::relu ||
         kind_ == Activation::leaky;
}

void ActivationBlock::forward(std::int64_t count, const Blob& output, int slice,
                              TaskTag tag) const {
  if (!before_.empty())
    activation_forward.submit({.count = count, .activation = kind_},
                              {read(*before_[slice]), write(*output.value[slice])}, tag);
}

void ActivationBlock::backward(std::int64_t count, const Blob& output, int slice,
                               TaskTag tag) const {
  if (kind_ != Activation::linear)
    activation_backward.submit({.count = count, .activation = kind_},
                               {read(target(output, slice)), read_write(*output.diff[slice])}, tag);
}

void ActivationBlock::backward(std::int64_t count, const Blob& output, int slice,
                               const Tensor& diff_bias, TaskTag tag) const {
  submit_channel_bias_backward(
      {.rows = count / output.extent.c, .c = output.extent.c, .activation = kind_},
      *output.diff[slice], diff_bias, &target(output, slice), tag);
}

}  // namespace omni
