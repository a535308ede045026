// This file convolves directly by oneDNN. oneDNN takes the activations as they are, channels last.
// Weights are copied once per task to the layout that oneDNN prefers for the shape, and gradients
// of weights are added back from it. With --precision bf16 the copies of weights are rounded. Other
// factors that hold floats are then copied and rounded, too.
#include "codelets/convolution/convolution.hpp"

#include <cassert>
#include <unordered_map>

#include "codelets/dense/gemm.hpp"
#include "codelets/dense/onednn_support.hpp"
#include "codelets/elementwise/channel_bias.hpp"

namespace omni {
namespace {

using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

// A Geometry describes the tensors of the task, and the factors as oneDNN's primitives take them.
struct Geometry {
  Geometry(const ConvShape& s, memory::data_type values)
      : src(channels_last({s.n, s.c, s.h, s.w}, values)),
        dst(channels_last({s.n, s.filters, s.out_h(), s.out_w()}, values)),
        weights(weight_dims(s), memory::data_type::f32,
                s.groups == 1 ? memory::format_tag::ohwi : memory::format_tag::gohwi),
        bias({s.filters}, memory::data_type::f32, memory::format_tag::a),
        any_weights(weight_dims(s), memory::data_type::f32, memory::format_tag::any),
        src_factor(channels_last(src.dims(), onednn::factors().type)),
        dst_factor(channels_last(dst.dims(), onednn::factors().type)),
        weights_factor(weight_dims(s), onednn::factors().type, memory::format_tag::any),
        strides{s.stride_h, s.stride_w},
        dilation{s.dilation_h - 1, s.dilation_w - 1},  // pixels between two taps
        padding{s.pad_h, s.pad_w} {}

  static memory::desc channels_last(const memory::dims& dims, memory::data_type type) {
    return {dims, type, memory::format_tag::nhwc};
  }
  static memory::dims weight_dims(const ConvShape& s) {
    if (s.groups == 1) return {s.filters, s.c, s.kernel_h, s.kernel_w};
    return {s.groups, s.group_filters(), s.group_c(), s.kernel_h, s.kernel_w};
  }

  memory::desc src, dst, weights, bias;
  memory::desc any_weights;  // the gradient of weights, in a layout that oneDNN chooses
  memory::desc src_factor, dst_factor, weights_factor;
  memory::dims strides, dilation, padding;
};

dnnl::convolution_forward::primitive_desc forward_desc(const dnnl::engine& engine,
                                                       const Geometry& g, bool has_bias,
                                                       const dnnl::primitive_attr& attributes) {
  return {{dnnl::prop_kind::forward_training, kAlgorithm, g.src_factor, g.weights_factor,
           has_bias ? g.bias : memory::desc(), g.dst, g.strides, g.dilation, g.padding, g.padding},
          attributes,
          engine};
}

template <class Args>
class Plan;

template <>
class Plan<ConvForwardArgs> {
 public:
  Plan(const dnnl::engine& engine, const ConvForwardArgs& args, memory::data_type values)
      : geometry_(args.shape, values) {
    dnnl::primitive_attr attributes = onednn::with_user_scratchpad();
    activate_after_ = !onednn::append_activation(args.activation, attributes);
    const auto desc = forward_desc(engine, geometry_, args.has_bias, attributes);
    convolution_ = dnnl::convolution_forward(desc);
    scratchpad_ = desc.scratchpad_desc();
    scratchpad_at_ = layout_.add(scratchpad_);
    src_ = {engine, geometry_.src, desc.src_desc(), layout_};
    weights_ = {engine, geometry_.weights, desc.weights_desc(), layout_};
  }

  void run(const ConvForwardArgs& args, const Buffers& buffers, DeviceContext& context) const {
    const auto& [engine, stream] = context.local<onednn::Engine>();
    float* scratch = context.scratch(layout_.floats());
    Arguments arguments{
        {DNNL_ARG_SRC, src_.bring(engine, stream, buffers.get<void>(0), scratch)},
        {DNNL_ARG_WEIGHTS, weights_.bring(engine, stream, buffers.get(1), scratch)},
        {DNNL_ARG_DST, onednn::view(geometry_.dst, engine, buffers.get<void>(2))},
        {DNNL_ARG_SCRATCHPAD, onednn::view(scratchpad_, engine, scratch + scratchpad_at_)}};
    if (args.has_bias)
      arguments.emplace(DNNL_ARG_BIAS, onednn::view(geometry_.bias, engine, buffers.get(3)));
    convolution_.execute(stream, arguments);
    if (!activate_after_) return;
    with_values(buffers, [&]<class T>(T) {
      activate(args.activation, buffers.get<T>(2), args.shape.dst_count());
    });
  }

  std::size_t floats() const { return layout_.floats(); }

 private:
  Geometry geometry_;
  dnnl::convolution_forward convolution_;
  onednn::Factor src_, weights_;
  memory::desc scratchpad_;
  onednn::ScratchLayout layout_;
  std::size_t scratchpad_at_;
  bool activate_after_;
};

template <>
class Plan<ConvWeightsArgs> {
 public:
  // oneDNN sums the bias's gradient from the diff_dst that it gets. If that is a rounded copy,
  // add_column_sums() sums the tensor itself instead.
  Plan(const dnnl::engine& engine, const ConvWeightsArgs& args, memory::data_type values)
      : geometry_(args.shape, values),
        with_bias_(args.has_bias && geometry_.dst == geometry_.dst_factor &&
                   !onednn::factors().rounded) {
    const Geometry& g = geometry_;
    const dnnl::convolution_backward_weights::primitive_desc desc(
        {kAlgorithm, g.src_factor, g.any_weights, with_bias_ ? g.bias : memory::desc(),
         g.dst_factor, g.strides, g.dilation, g.padding, g.padding},
        onednn::with_user_scratchpad(), engine,
        forward_desc(engine, g, with_bias_, onednn::with_user_scratchpad()));
    convolution_ = dnnl::convolution_backward_weights(desc);
    weights_ = desc.diff_weights_desc();
    scratchpad_ = desc.scratchpad_desc();
    scratchpad_at_ = layout_.add(scratchpad_);
    src_ = {engine, g.src, desc.src_desc(), layout_};
    diff_dst_ = {engine, g.dst, desc.diff_dst_desc(), layout_};
    weights_at_ = layout_.add(weights_);
    bias_at_ = layout_.add(g.bias);
    add_ = onednn::make_reorder(engine, weights_, g.weights, onednn::ReorderMode::add);
  }

  void run(const ConvWeightsArgs& args, const Buffers& buffers, DeviceContext& context) const {
    const auto& [engine, stream] = context.local<onednn::Engine>();
    float* scratch = context.scratch(layout_.floats());
    const float* added_bias = scratch + bias_at_;
    memory theirs = onednn::view(weights_, engine, scratch + weights_at_);
    Arguments arguments{
        {DNNL_ARG_SRC, src_.bring(engine, stream, buffers.get<void>(0), scratch)},
        {DNNL_ARG_DIFF_DST, diff_dst_.bring(engine, stream, buffers.get<void>(1), scratch)},
        {DNNL_ARG_DIFF_WEIGHTS, theirs},
        {DNNL_ARG_SCRATCHPAD, onednn::view(scratchpad_, engine, scratch + scratchpad_at_)}};
    if (with_bias_)
      arguments.emplace(DNNL_ARG_DIFF_BIAS, onednn::view(geometry_.bias, engine, added_bias));
    convolution_.execute(stream, arguments);
    memory ours = onednn::view(geometry_.weights, engine, buffers.get(2));
    add_.execute(stream, theirs, ours);
    if (!args.has_bias) return;
    float* diff_bias = buffers.get(3);
    if (with_bias_)
      for (int k = 0; k < args.shape.filters; ++k) diff_bias[k] += added_bias[k];
    else
      with_values(buffers, [&]<class T>(T) {
        add_column_sums(args.shape.pixels(), args.shape.filters, buffers.get<T>(1), diff_bias);
      });
  }

  std::size_t floats() const { return layout_.floats(); }

 private:
  Geometry geometry_;
  bool with_bias_;
  dnnl::convolution_backward_weights convolution_;
  onednn::Factor src_, diff_dst_;
  dnnl::reorder add_;
  memory::desc weights_, scratchpad_;
  onednn::ScratchLayout layout_;
  std::size_t weights_at_, scratchpad_at_, bias_at_;
};

template <>
class Plan<ConvDataArgs> {
 public:
  Plan(const dnnl::engine& engine, const ConvDataArgs& args, memory::data_type values)
      : geometry_(args.shape, values),
        product_(args.adds ? Geometry::channels_last(geometry_.src.dims(), memory::data_type::f32)
                           : geometry_.src) {
    const Geometry& g = geometry_;
    const dnnl::convolution_backward_data::primitive_desc desc(
        {kAlgorithm, product_, g.weights_factor, g.dst_factor, g.strides, g.dilation, g.padding,
         g.padding},
        onednn::with_user_scratchpad(), engine,
        forward_desc(engine, g, false, onednn::with_user_scratchpad()));
    convolution_ = dnnl::convolution_backward_data(desc);
    scratchpad_ = desc.scratchpad_desc();
    scratchpad_at_ = layout_.add(scratchpad_);
    diff_dst_ = {engine, g.dst, desc.diff_dst_desc(), layout_};
    weights_ = {engine, g.weights, desc.weights_desc(), layout_};
    product_at_ = args.adds ? layout_.add(product_) : 0;
  }

  void run(const ConvDataArgs& args, const Buffers& buffers, DeviceContext& context) const {
    const auto& [engine, stream] = context.local<onednn::Engine>();
    float* scratch = context.scratch(layout_.floats());
    const float* const product = scratch + product_at_;
    convolution_.execute(
        stream,
        {{DNNL_ARG_DIFF_DST, diff_dst_.bring(engine, stream, buffers.get<void>(0), scratch)},
         {DNNL_ARG_WEIGHTS, weights_.bring(engine, stream, buffers.get(1), scratch)},
         {DNNL_ARG_DIFF_SRC,
          onednn::view(product_, engine, args.adds ? product : buffers.get<void>(2))},
         {DNNL_ARG_SCRATCHPAD, onednn::view(scratchpad_, engine, scratch + scratchpad_at_)}});
    if (!args.adds) return;
    with_values(buffers, [&, count = args.shape.src_count()]<class T>(T) {
      T* diff_src = buffers.get<T>(2);
      for (std::int64_t i = 0; i < count; ++i) diff_src[i] = diff_src[i] + product[i];
    });
  }

  std::size_t floats() const { return layout_.floats(); }

 private:
  Geometry geometry_;
  memory::desc product_;
  dnnl::convolution_backward_data convolution_;
  onednn::Factor diff_dst_, weights_;
  memory::desc scratchpad_;
  onednn::ScratchLayout layout_;
  std::size_t scratchpad_at_, product_at_;
};

// Returns the plan of a pass. Tensors hold bf16 only if factors are in bf16 as well.
template <class Args>
const Plan<Args>& plan_for(const Args& args, DeviceContext& context, bool bf16_tensors) {
  assert(!bf16_tensors || in_bf16());
  return onednn::plan_for<Plan<Args>>(
      args, context, bf16_tensors ? memory::data_type::bf16 : memory::data_type::f32);
}

}  // namespace

template <class Args>
void conv_onednn(const Args& args, const Buffers& buffers, DeviceContext& context) {
  plan_for(args, context, buffers.in_bf16()).run(args, buffers, context);
}
template void conv_onednn(const ConvForwardArgs&, const Buffers&, DeviceContext&);
template void conv_onednn(const ConvWeightsArgs&, const Buffers&, DeviceContext&);
template void conv_onednn(const ConvDataArgs&, const Buffers&, DeviceContext&);

template <class Args>
WorkingFloats conv_onednn_floats(const Args& args, BufferSet in_bf16) {
  return {.scratch = plan_for(args, DeviceContext::current(), !in_bf16.empty()).floats()};
}
template WorkingFloats conv_onednn_floats(const ConvForwardArgs&, BufferSet);
template WorkingFloats conv_onednn_floats(const ConvWeightsArgs&, BufferSet);
template WorkingFloats conv_onednn_floats(const ConvDataArgs&, BufferSet);

}  // namespace omni
