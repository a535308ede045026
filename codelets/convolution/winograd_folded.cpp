#include "codelets/convolution/winograd_folded.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codelets/convolution/folding.hpp"
#include "codelets/convolution/winograd_transforms.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni::winograd::folded {
namespace {

// A convolution's folded tensors, in the context's scratch, with what their convolution needs
// behind them.
class Tensors {
 public:
  Tensors(const Method& method, const ConvShape& shape, Pass pass, DeviceContext& context)
      : Tensors(shape) {
    first_ = context.scratch(scratch_floats(method.tile_in, pass));
    inner_ = {method.tile_in, method.product, first_ + end_};
  }
  explicit Tensors(const ConvShape& shape)
      : folding_(shape, kLanes), folds_dst_(folded().filters != shape.filters) {
    const auto add = [&](std::int64_t count) {
      const std::size_t at = end_;
      end_ += (static_cast<std::size_t>(count) + 15) / 16 * 16;
      return at;
    };
    src_at_ = add(folded().src_count());
    weights_at_ = add(folded().weights_count());
    dst_at_ = add(folds_dst_ ? folded().dst_count() : 0);
  }
  std::size_t scratch_floats(int tile_in, Pass pass) const {
    return end_ + winograd::scratch_floats(folded(), tile_in, pass);
  }

  const Folding& folding() const { return folding_; }
  const ConvShape& folded() const { return folding_.folded(); }
  const Method& inner() const { return inner_; }  // of the convolution of folded tensors
  bool folds_dst() const { return folds_dst_; }

  float* src() const { return first_ + src_at_; }
  float* weights() const { return first_ + weights_at_; }
  float* dst() const { return first_ + dst_at_; }
  const float* fold_src(const float* values) const {
    folding_.fold_src(values, src());
    return src();
  }
  const float* fold_weights(const float* values) const {
    folding_.fold_weights(values, weights());
    return weights();
  }
  const float* fold_dst(const float* values) const {
    if (!folds_dst_) return values;
    folding_.fold_dst(values, dst());
    return dst();
  }

 private:
  Folding folding_;
  bool folds_dst_;
  std::size_t src_at_ = 0, weights_at_ = 0, dst_at_ = 0, end_ = 0;
  float* first_ = nullptr;
  Method inner_{};
};

}  // namespace

bool suits(const ConvShape& s, int tile_in) {
  if (!Folding::supports(s)) return false;
  const ConvShape folded = Folding(s, kLanes).folded();
  if (!supports(folded)) return false;
  const auto per_output = [](double products, const ConvShape& of) {
    return products * of.c * of.filters;
  };
  const int outputs = winograd::outputs(tile_in, folded.kernel_h);
  return per_output(1.0 * tile_in * tile_in / (outputs * outputs), folded) <
         0.6 * per_output(s.kernel_h * s.kernel_w, s);
}

std::size_t scratch_floats(const ConvShape& shape, int tile_in, Pass pass) {
  return Tensors(shape).scratch_floats(tile_in, pass);
}

void forward(const Method& method, const ConvShape& shape, const float* src, const float* weights,
             const float* bias, Activation activation, float* dst, DeviceContext& context) {
  const Tensors tensors(method, shape, Pass::forward, context);
  const float* const theirs = tensors.fold_src(src);
  const float* const kernels = tensors.fold_weights(weights);
  if (!tensors.folds_dst()) {
    winograd::forward(tensors.inner(), tensors.folded(), theirs, kernels, bias, activation, dst,
                      context);
    return;
  }
  winograd::forward(tensors.inner(), tensors.folded(), theirs, kernels, nullptr, Activation::linear,
                    tensors.dst(), context);
  tensors.folding().unfold_dst(tensors.dst(), dst);
  add_bias_and_activate(shape.pixels(), shape.filters, bias, activation, dst);
}

void backward_weights(const Method& method, const ConvShape& shape, const float* src,
                      const float* diff_dst, float* diff_weights, DeviceContext& context) {
  const Tensors tensors(method, shape, Pass::backward_weights, context);
  float* const gradient = tensors.weights();
  std::fill_n(gradient, tensors.folded().weights_count(), 0.0f);
  winograd::backward_weights(tensors.inner(), tensors.folded(), tensors.fold_src(src),
                             tensors.fold_dst(diff_dst), gradient, context);
  tensors.folding().add_unfolded_weights(gradient, diff_weights);
}

void backward_data(const Method& method, const ConvShape& shape, const float* diff_dst,
                   const float* weights, bool adds, float* diff_src, DeviceContext& context) {
  const Tensors tensors(method, shape, Pass::backward_data, context);
  winograd::backward_data(tensors.inner(), tensors.folded(), tensors.fold_dst(diff_dst),
                          tensors.fold_weights(weights), false, tensors.src(), context);
  tensors.folding().unfold_src(tensors.src(), adds, diff_src);
}

}  // namespace omni::winograd::folded
