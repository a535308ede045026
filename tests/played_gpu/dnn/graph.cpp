#include "tests/played_gpu/dnn/graph.hpp"

#include <algorithm>

namespace omni::played {
namespace {

using Sizes = std::vector<std::int64_t>;

struct Tensor {
  std::int64_t name = 0;
  cudnnDataType_t type{};
  Sizes size, stride;  // n c h w
  std::int64_t alignment = 0;
  bool passed_on = false;
};

bool positive(const Sizes& sizes) {
  return std::ranges::all_of(sizes, [](std::int64_t size) { return size > 0; });
}

std::optional<Tensor> read_tensor(const Descriptor& from) {
  const auto name = from.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  const auto type = from.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  const auto size = from.values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, 4);
  const auto stride = from.values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, 4);
  const auto alignment = from.value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  if (from.type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || !name || !type || !size || !stride ||
      !alignment || !positive(*size) || !positive(*stride))
    return std::nullopt;
  return Tensor{*name,      *type,
                *size,      *stride,
                *alignment, from.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL).value_or(false)};
}

struct Geometry {
  Sizes pad, stride, dilation;
};

std::optional<Geometry> read_geometry(const Descriptor& from) {
  const auto pad = from.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2);
  const auto stride = from.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2);
  const auto dilation = from.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, 2);
  if (!pad || !stride || !dilation || !positive(*stride) || !positive(*dilation) ||
      std::ranges::min(*pad) < 0 ||
      from.values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2) != pad ||
      from.value<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != 2 ||
      from.value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT ||
      from.value<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) !=
          CUDNN_CROSS_CORRELATION)
    return std::nullopt;
  return Geometry{*pad, *stride, *dilation};
}

struct Names {
  cudnnBackendAttributeName_t geometry, x, filter, y, alpha, beta;
};

// Returns nothing if the operation is no convolution.
std::optional<Names> names_of(cudnnBackendDescriptorType_t operation) {
  switch (operation) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return Names{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return Names{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return Names{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default: return std::nullopt;
  }
}

// Returns the size of a convolution's output for `size` pixels of input, or zero if the filter is
// larger.
std::int64_t output(std::int64_t size, std::int64_t filter, std::int64_t pad, std::int64_t stride,
                    std::int64_t dilation) {
  const std::int64_t steps = size + 2 * pad - ((filter - 1) * dilation + 1);
  return steps < 0 ? 0 : 1 + steps / stride;
}

// The tensor's channels may be some of those that each pixel has in memory.
bool channels_last(const Tensor& tensor) {
  const std::int64_t stored = tensor.stride[3], h = tensor.size[2], w = tensor.size[3];
  return tensor.stride == Sizes{h * w * stored, 1, w * stored, stored} && stored >= tensor.size[1];
}
bool has_all_channels(const Tensor& tensor) { return tensor.stride[3] == tensor.size[1]; }

bool playable(const Tensor& tensor, cudnnDataType_t type) {
  const bool known = type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_BFLOAT16;
  return known && tensor.type == type && channels_last(tensor) &&
         (!tensor.passed_on || has_all_channels(tensor));
}

// Reads the convolution of the graph, and its output `y`.
cudnnStatus_t read_convolution(const Descriptor& operation, Graph& graph, Tensor& y) {
  const std::optional<Names> names = names_of(operation.type);
  if (!names) return CUDNN_STATUS_NOT_SUPPORTED;
  const auto read = [&](cudnnBackendAttributeName_t name) {
    return *read_tensor(*operation.part(name));
  };
  const Tensor x = read(names->x), filter = read(names->filter);
  y = read(names->y);
  const Geometry its = *read_geometry(*operation.part(names->geometry));
  const std::int64_t c = x.size[1], k = filter.size[0];
  if (c % filter.size[1] != 0 || k % (c / filter.size[1]) != 0 || y.size[0] != x.size[0] ||
      y.size[1] != k)
    return CUDNN_STATUS_BAD_PARAM;
  for (const std::size_t i : {0u, 1u})
    if (y.size[2 + i] !=
        output(x.size[2 + i], filter.size[2 + i], its.pad[i], its.stride[i], its.dilation[i]))
      return CUDNN_STATUS_BAD_PARAM;
  // A tensor that another operation reads is in floats.
  if (!playable(x, x.type) || !playable(filter, x.type) || !has_all_channels(filter) ||
      !playable(y, y.passed_on ? CUDNN_DATA_FLOAT : x.type) ||
      operation.value<float>(names->alpha) != 1)
    return CUDNN_STATUS_NOT_SUPPORTED;
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  const auto pair = [](const Sizes& sizes) {
    return std::array{static_cast<int>(sizes[0]), static_cast<int>(sizes[1])};
  };
  graph.pass = operation.type;
  graph.shape = {.n = number(x.size[0]),
                 .groups = number(c / filter.size[1]),
                 .c = number(c),
                 .h = number(x.size[2]),
                 .w = number(x.size[3]),
                 .k = number(k),
                 .out_h = number(y.size[2]),
                 .out_w = number(y.size[3]),
                 .filter_h = number(filter.size[2]),
                 .filter_w = number(filter.size[3]),
                 .pad = pair(its.pad),
                 .stride = pair(its.stride),
                 .dilation = pair(its.dilation),
                 .bf16 = x.type == CUDNN_DATA_BFLOAT16,
                 .x_stride = number(x.stride[3]),
                 .y_stride = number(y.stride[3])};
  for (const Tensor& each : {x, filter, y}) graph.alignments[each.name] = each.alignment;
  graph.x = x.name;
  graph.filter = filter.name;
  graph.y = y.name;
  graph.beta = *operation.value<float>(names->beta);
  return CUDNN_STATUS_SUCCESS;
}

// `made` has the tensors that a pointwise operation may read. Its output is added to `made`.
cudnnStatus_t read_pointwise(const Descriptor& operation, Graph& graph, std::vector<Tensor>& made) {
  if (operation.type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR || !graph.is_forward())
    return CUDNN_STATUS_NOT_SUPPORTED;
  const Tensor from = *read_tensor(*operation.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
  const Tensor to = *read_tensor(*operation.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  const auto is_made = [&](const Tensor& tensor) {
    return tensor.passed_on && std::ranges::find(made, tensor.name, &Tensor::name) != made.end();
  };
  if (!is_made(from) || to.size != from.size || to.name == from.name) return CUDNN_STATUS_BAD_PARAM;
  if (!channels_last(to)) return CUDNN_STATUS_NOT_SUPPORTED;
  const auto function = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = *function->value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const auto other = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  if ((mode == CUDNN_POINTWISE_ADD) != (other != nullptr)) return CUDNN_STATUS_BAD_PARAM;
  if (mode != CUDNN_POINTWISE_ADD && mode != CUDNN_POINTWISE_RELU_FWD)
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (other) {
    const Tensor bias = *read_tensor(*other);
    if (bias.size != Sizes{1, from.size[1], 1, 1}) return CUDNN_STATUS_BAD_PARAM;
    // The real cuDNN has engines for a bias of another type only if it can compile them.
    if ((bias.type == CUDNN_DATA_BFLOAT16) != graph.shape.bf16 || graph.bias != 0)
      return CUDNN_STATUS_NOT_SUPPORTED;
    graph.bias = bias.name;
    graph.alignments[bias.name] = bias.alignment;
  }
  graph.alignments[to.name] = to.alignment;
  graph.shape.y_stride = static_cast<int>(to.stride[3]);
  graph.steps.push_back({mode, function->value<cudnnNanPropagation_t>(
                                   CUDNN_ATTR_POINTWISE_NAN_PROPAGATION) == CUDNN_PROPAGATE_NAN});
  made.push_back(to);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ok(bool is) { return is ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM; }

bool has_tensor(const Descriptor& operation, cudnnBackendAttributeName_t name) {
  const auto part = operation.part(name);
  return part && read_tensor(*part);
}

}  // namespace

cudnnStatus_t check_part_of_graph(const Descriptor& its) {
  if (const auto names = names_of(its.type)) {
    const auto geometry = its.part(names->geometry);
    return ok(geometry && read_geometry(*geometry) && has_tensor(its, names->x) &&
              has_tensor(its, names->filter) && has_tensor(its, names->y) &&
              its.value<float>(names->alpha) && its.value<float>(names->beta));
  }
  switch (its.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return ok(read_tensor(its).has_value());
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return ok(read_geometry(its).has_value());
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return ok(its.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) &&
                its.value<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC) == CUDNN_DATA_FLOAT);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      const auto function = its.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      return ok(function && function->type == CUDNN_BACKEND_POINTWISE_DESCRIPTOR &&
                has_tensor(its, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) &&
                has_tensor(its, CUDNN_ATTR_OPERATION_POINTWISE_YDESC) &&
                (its.parts(CUDNN_ATTR_OPERATION_POINTWISE_BDESC).empty() ||
                 has_tensor(its, CUDNN_ATTR_OPERATION_POINTWISE_BDESC)));
    }
    default: return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

cudnnStatus_t read_graph(const Descriptor& descriptor, Graph& graph) {
  const Descriptor::Parts& operations = descriptor.parts(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (operations.empty() || !descriptor.value<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE))
    return CUDNN_STATUS_BAD_PARAM;
  graph = {};
  std::vector<Tensor> made(1);
  cudnnStatus_t status = read_convolution(*operations[0], graph, made[0]);
  for (std::size_t i = 1; i < operations.size() && status == CUDNN_STATUS_SUCCESS; ++i)
    status = read_pointwise(*operations[i], graph, made);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  graph.result = made.back().name;
  // Only the last operation's output may leave the graph.
  if (std::ranges::count(made, false, &Tensor::passed_on) != 1 || made.back().passed_on)
    return CUDNN_STATUS_BAD_PARAM;
  const bool right = (made.back().type == CUDNN_DATA_BFLOAT16) == graph.shape.bf16;
  return right ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace omni::played
