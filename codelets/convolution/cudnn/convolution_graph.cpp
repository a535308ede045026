// This file makes cuDNN's operation graph of a pass, with cuDNN's names of attributes.
#include "codelets/convolution/cudnn/engines.hpp"

#include "codelets/cuda/plans.hpp"

namespace omni::cudnn {
namespace {

// Names has cuDNN's names of a pass and of its attributes, in the order of Pass.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t convolution, src, weights, dst, alpha, beta;
};

#define OMNI_NAMES(operation, pass, x, w, y)                      \
  {                                                               \
    CUDNN_BACKEND_OPERATION_CONVOLUTION_##operation##_DESCRIPTOR, \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_CONV_DESC,      \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_##x,            \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_##w,            \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_##y,            \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_ALPHA,          \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_BETA            \
  }
constexpr Names kNames[] = {OMNI_NAMES(FORWARD, FORWARD, X, W, Y),
                            OMNI_NAMES(BACKWARD_FILTER, BWD_FILTER, X, DW, DY),
                            OMNI_NAMES(BACKWARD_DATA, BWD_DATA, DX, W, DY)};
#undef OMNI_NAMES

}  // namespace

ConvolutionGraph::ConvolutionGraph(const ConvolutionWork& work, const Target& target) {
  const ConvShape& s = work.shape;
  const Size dst_size{s.n, s.filters, s.out_h(), s.out_w()};
  const int c = work.stored_c == 0 ? s.c : work.stored_c;
  const int filters = work.stored_filters == 0 ? s.filters : work.stored_filters;
  const Backend& src = tensor(TensorName::src, {s.n, s.c, s.h, s.w}, c, work.type, work.alignment);
  const Backend& weights =
      tensor(TensorName::weights, {s.filters, s.group_c(), s.kernel_h, s.kernel_w}, s.group_c(),
             work.type, work.alignment);
  const Backend& dst = tensor(TensorName::dst, dst_size, filters, work.type, work.alignment);
  std::int64_t next = static_cast<std::int64_t>(TensorName::bias) + 1;
  // Makes a tensor that one operation writes and the next one reads.
  const auto between = [&]() -> const Backend& {
    Backend& made = add_tensor(next++, dst_size, s.filters, CUDNN_DATA_FLOAT, kWidestLoad);
    made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    made.finalize();
    return made;
  };

  std::vector<const Backend*> operations;
  const auto then = [&](const Backend& operation) { operations.push_back(&operation); };
  const Backend* value = work.bias || work.relu ? &between() : &dst;
  then(convolution(work, src, weights, *value));
  if (work.bias) {
    const Backend& bias =
        tensor(TensorName::bias, {1, s.filters, 1, 1}, s.filters, work.type, kWidestLoad);
    const Backend& sum = work.relu ? between() : dst;
    then(pointwise(CUDNN_POINTWISE_ADD, *value, &bias, sum));
    value = &sum;
  }
  if (work.relu) then(pointwise(CUDNN_POINTWISE_RELU_FWD, *value, nullptr, dst));

  Backend& graph = add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target.handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  graph.finalize();
}

Backend& ConvolutionGraph::add_tensor(std::int64_t name, const Size& size, std::int64_t channels,
                                      cudnnDataType_t type, int alignment) {
  const std::int64_t h = size[2], w = size[3];
  Backend& made = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, name);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, size);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, Size{h * w * channels, 1, w * channels, channels});
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{alignment});
  return made;
}

const Backend& ConvolutionGraph::tensor(TensorName name, const Size& size, std::int64_t channels,
                                        cudnnDataType_t type, int alignment) {
  Backend& made = add_tensor(static_cast<std::int64_t>(name), size, channels, type, alignment);
  made.finalize();
  return made;
}

const Backend& ConvolutionGraph::convolution(const ConvolutionWork& work, const Backend& src,
                                             const Backend& weights, const Backend& dst) {
  using Pair = std::array<std::int64_t, 2>;
  const ConvShape& s = work.shape;
  const Pair pad{s.pad_h, s.pad_w}, stride{s.stride_h, s.stride_w},
      dilation{s.dilation_h, s.dilation_w};
  Backend& geometry = add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  geometry.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  geometry.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  geometry.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  geometry.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pad);
  geometry.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pad);
  geometry.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride);
  geometry.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation);
  geometry.finalize();

  const Names& names = kNames[static_cast<std::size_t>(work.pass)];
  Backend& operation = add(names.operation);
  operation.set(names.convolution, geometry);
  operation.set(names.src, src);
  operation.set(names.weights, weights);
  operation.set(names.dst, dst);
  operation.set(names.alpha, 1.0f);
  operation.set(names.beta, work.adds ? 1.0f : 0.0f);
  operation.finalize();
  return operation;
}

const Backend& ConvolutionGraph::pointwise(cudnnPointwiseMode_t mode, const Backend& src,
                                           const Backend* second, const Backend& dst) {
  Backend& function = add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  function.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN);
  function.finalize();

  Backend& operation = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, src);
  if (second != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *second);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, dst);
  operation.finalize();
  return operation;
}

}  // namespace omni::cudnn
