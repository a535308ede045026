#include "codelets/convolution/winograd_folded.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "codelets/convolution/folding.hpp"
#include "codelets/convolution/winograd_transforms.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni::winograd::folded {
namespace {

// A worker's folded tensors. The engine's own memory is the context's scratch.
struct Tensors {
  std::vector<float> src, weights, dst;
};

float* sized(std::vector<float>& values, std::int64_t count) {
  if (values.size() < static_cast<std::size_t>(count))
    values.resize(static_cast<std::size_t>(count));
  return values.data();
}

const float* folded_src(const Folding& folding, const float* src, Tensors& tensors) {
  float* const to = sized(tensors.src, folding.folded().src_count());
  folding.fold_src(src, to);
  return to;
}

const float* folded_weights(const Folding& folding, const float* weights, Tensors& tensors) {
  float* const to = sized(tensors.weights, folding.folded().weights_count());
  folding.fold_weights(weights, to);
  return to;
}

const float* folded_dst(const ConvShape& shape, const Folding& folding, const float* dst,
                        Tensors& tensors) {
  if (folding.folded().filters == shape.filters) return dst;
  float* const to = sized(tensors.dst, folding.folded().dst_count());
  folding.fold_dst(dst, to);
  return to;
}

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

void forward(const ConvShape& shape, int tile_in, Gemm product, const float* src,
             const float* weights, const float* bias, Activation activation, float* dst,
             DeviceContext& context) {
  const Folding folding(shape, kLanes);
  const ConvShape& folded = folding.folded();
  auto& tensors = context.local<Tensors>();
  const float* const theirs = folded_src(folding, src, tensors);
  const float* const kernels = folded_weights(folding, weights, tensors);
  if (folded.filters == shape.filters) {
    winograd::forward(folded, tile_in, product, theirs, kernels, bias, activation, dst, context);
    return;
  }
  float* const more = sized(tensors.dst, folded.dst_count());
  winograd::forward(folded, tile_in, product, theirs, kernels, nullptr, Activation::linear, more,
                    context);
  folding.unfold_dst(more, dst);
  add_bias_and_activate(shape.pixels(), shape.filters, bias, activation, dst);
}

void backward_weights(const ConvShape& shape, int tile_in, Gemm product, const float* src,
                      const float* diff_dst, float* diff_weights, DeviceContext& context) {
  const Folding folding(shape, kLanes);
  const std::int64_t count = folding.folded().weights_count();
  auto& tensors = context.local<Tensors>();
  float* const gradient = sized(tensors.weights, count);
  std::fill_n(gradient, count, 0.0f);
  winograd::backward_weights(folding.folded(), tile_in, product, folded_src(folding, src, tensors),
                             folded_dst(shape, folding, diff_dst, tensors), gradient, context);
  folding.add_unfolded_weights(gradient, diff_weights);
}

void backward_data(const ConvShape& shape, int tile_in, Gemm product, const float* diff_dst,
                   const float* weights, bool adds, float* diff_src, DeviceContext& context) {
  const Folding folding(shape, kLanes);
  auto& tensors = context.local<Tensors>();
  float* const gradient = sized(tensors.src, folding.folded().src_count());
  winograd::backward_data(folding.folded(), tile_in, product,
                          folded_dst(shape, folding, diff_dst, tensors),
                          folded_weights(folding, weights, tensors), false, gradient, context);
  folding.unfold_src(gradient, adds, diff_src);
}

}  // namespace omni::winograd::folded
