#include "codelets/convolution/winograd_folded.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "codelets/convolution/folding.hpp"
#include "codelets/convolution/winograd_transforms.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni::winograd::folded {
namespace {

// Tensors are the folded tensors of a convolution, in the context's scratch memory. The scratch
// memory of the folded convolution lies behind them.
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
  float* fold_src(const float* values) const {
    folding_.fold_src(values, src());
    return src();
  }
  float* fold_weights(const float* values) const {
    folding_.fold_weights(values, weights());
    return weights();
  }
  float* fold_dst(float* values) const {
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

void run(const Method& method, const ConvForwardArgs& args, const Buffers& buffers,
         DeviceContext& context) {
  const Tensors tensors(method, args.shape, Pass::forward, context);
  ConvForwardArgs inner = args;
  inner.shape = tensors.folded();
  std::array<void*, 4> theirs{tensors.fold_src(buffers.get(0)),
                              tensors.fold_weights(buffers.get(1)), buffers.get(2),
                              args.has_bias ? buffers.get(3) : nullptr};
  if (!tensors.folds_dst()) return winograd::run(tensors.inner(), inner, Buffers(theirs), context);
  inner.has_bias = false;
  inner.activation = Activation::linear;
  theirs[2] = tensors.dst();
  winograd::run(tensors.inner(), inner, Buffers(theirs), context);
  tensors.folding().unfold_dst(tensors.dst(), buffers.get(2));
  add_bias_and_activate(args.shape.pixels(), args.shape.filters,
                        args.has_bias ? buffers.get(3) : nullptr, args.activation, buffers.get(2));
}

void run(const Method& method, const ConvWeightsArgs& args, const Buffers& buffers,
         DeviceContext& context) {
  const Tensors tensors(method, args.shape, Pass::backward_weights, context);
  std::fill_n(tensors.weights(), tensors.folded().weights_count(), 0.0f);
  const std::array<void*, 3> theirs{tensors.fold_src(buffers.get(0)),
                                    tensors.fold_dst(buffers.get(1)), tensors.weights()};
  winograd::run(tensors.inner(), ConvWeightsArgs{.shape = tensors.folded()}, Buffers(theirs),
                context);
  tensors.folding().add_unfolded_weights(tensors.weights(), buffers.get(2));
}

void run(const Method& method, const ConvDataArgs& args, const Buffers& buffers,
         DeviceContext& context) {
  const Tensors tensors(method, args.shape, Pass::backward_data, context);
  const std::array<void*, 3> theirs{tensors.fold_dst(buffers.get(0)),
                                    tensors.fold_weights(buffers.get(1)), tensors.src()};
  winograd::run(tensors.inner(), ConvDataArgs{.shape = tensors.folded()}, Buffers(theirs), context);
  tensors.folding().unfold_src(tensors.src(), args.adds, buffers.get(2));
}

}  // namespace omni::winograd::folded
