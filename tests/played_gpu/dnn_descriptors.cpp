#include "tests/played_gpu/dnn_descriptors.hpp"

#include "tests/played_gpu/handles.hpp"
#include "tests/played_gpu/rounding.hpp"
#include "tests/played_gpu/stream.hpp"

namespace omni::played {
namespace {

template <class Object>
Handles<Object*, Object>& handles() {
  static auto* all = new Handles<Object*, Object>;  // never destroyed: used until the very end
  return *all;
}

template <class Object>
cudnnStatus_t create(Object** handle) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *handle = handles<Object>().add(std::make_shared<Object>());
  return CUDNN_STATUS_SUCCESS;
}

template <class Object>
cudnnStatus_t destroy(Object* handle) {
  return handles<Object>().remove(handle) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

template <class... Sizes>
bool all_positive(Sizes... sizes) {
  return ((sizes > 0) && ...);
}

// What a convolution makes of `size` pixels; zero: the filter is larger.
int output(int size, int filter, int pad, int stride, int dilation) {
  const int steps = size + 2 * pad - ((filter - 1) * dilation + 1);
  return steps < 0 ? 0 : 1 + steps / stride;
}

bool channels_last(const cudnnTensorStruct& tensor) {
  const auto [n, c, h, w] = tensor.size;
  return tensor.stride == std::array{h * w * c, 1, w * c, c};
}

}  // namespace

cudnnStatus_t make_convolution(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t filter,
                               cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                               Convolution& made) {
  if (x == nullptr || filter == nullptr || convolution == nullptr || y == nullptr || !x->set ||
      !filter->set || !convolution->set || !y->set)
    return CUDNN_STATUS_BAD_PARAM;
  int n, c, h, w;
  if (const cudnnStatus_t status =
          cudnnGetConvolution2dForwardOutputDim(convolution, x, filter, &n, &c, &h, &w);
      status != CUDNN_STATUS_SUCCESS)
    return status;
  if (y->size != std::array{n, c, h, w}) return CUDNN_STATUS_BAD_PARAM;
  if (x->type != filter->type || x->type != y->type) return CUDNN_STATUS_BAD_PARAM;
  const bool bf16 = x->type == CUDNN_DATA_BFLOAT16;
  if ((x->type != CUDNN_DATA_FLOAT && !bf16) || convolution->compute != CUDNN_DATA_FLOAT ||
      convolution->mode != CUDNN_CROSS_CORRELATION || !channels_last(*x) || !channels_last(*y) ||
      filter->format != CUDNN_TENSOR_NHWC)
    return CUDNN_STATUS_NOT_SUPPORTED;
  for (const std::size_t i : {0u, 1u})
    if (convolution->pad[i] > ((i == 0 ? filter->h : filter->w) - 1) * convolution->dilation[i])
      return CUDNN_STATUS_NOT_SUPPORTED;
  made = {.n = n,
          .groups = convolution->groups,
          .c = x->size[1],
          .h = x->size[2],
          .w = x->size[3],
          .k = c,
          .out_h = h,
          .out_w = w,
          .filter_h = filter->h,
          .filter_w = filter->w,
          .pad = convolution->pad,
          .stride = convolution->stride,
          .dilation = convolution->dilation,
          .mantissa = convolution->math == CUDNN_FMA_MATH ? kExact : kTf32,
          .bf16 = bf16};
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace omni::played

using namespace omni::played;

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return create(handle); }
// Strict: may use its stream, which must not have gone before.
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (handle != nullptr) find_stream(handle->stream);
  return destroy(handle);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_UNKNOWN_STATUS";
  }
}

// ---- tensors ----
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return create(tensor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return destroy(tensor);
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                           int n, int c, int h, int w, int n_stride, int c_stride,
                                           int h_stride, int w_stride) {
  if (tensor == nullptr || !all_positive(n, c, h, w, n_stride, c_stride, h_stride, w_stride))
    return CUDNN_STATUS_BAD_PARAM;
  *tensor = {true, type, {n, c, h, w}, {n_stride, c_stride, h_stride, w_stride}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  if (format == CUDNN_TENSOR_NCHW)
    return cudnnSetTensor4dDescriptorEx(tensor, type, n, c, h, w, c * h * w, h * w, w, 1);
  if (format == CUDNN_TENSOR_NHWC)
    return cudnnSetTensor4dDescriptorEx(tensor, type, n, c, h, w, h * w * c, 1, w * c, c);
  return CUDNN_STATUS_NOT_SUPPORTED;
}

// ---- filters ----
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return create(filter);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return destroy(filter);
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  if (filter == nullptr || !all_positive(k, c, h, w)) return CUDNN_STATUS_BAD_PARAM;
  *filter = {true, type, format, k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}

// ---- convolutions ----
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  return create(convolution);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  return destroy(convolution);
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (convolution == nullptr || pad_h < 0 || pad_w < 0 ||
      !all_positive(stride_h, stride_w, dilation_h, dilation_w))
    return CUDNN_STATUS_BAD_PARAM;
  convolution->set = true;
  convolution->pad = {pad_h, pad_w};
  convolution->stride = {stride_h, stride_w};
  convolution->dilation = {dilation_h, dilation_w};
  convolution->mode = mode;
  convolution->compute = compute;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  if (convolution == nullptr || groups < 1) return CUDNN_STATUS_BAD_PARAM;
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t math) {
  if (convolution == nullptr) return CUDNN_STATUS_BAD_PARAM;
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t convolution,
                                                    cudnnTensorDescriptor_t x,
                                                    cudnnFilterDescriptor_t filter, int* n, int* c,
                                                    int* h, int* w) {
  if (x->size[1] != filter->c * convolution->groups || filter->k % convolution->groups != 0)
    return CUDNN_STATUS_BAD_PARAM;
  *n = x->size[0];
  *c = filter->k;
  *h = output(x->size[2], filter->h, convolution->pad[0], convolution->stride[0],
              convolution->dilation[0]);
  *w = output(x->size[3], filter->w, convolution->pad[1], convolution->stride[1],
              convolution->dilation[1]);
  return all_positive(*h, *w) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

// ---- activations ----
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* activation) {
  return create(activation);
}
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation) {
  return destroy(activation);
}

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t,
                                           double) {
  if (activation == nullptr) return CUDNN_STATUS_BAD_PARAM;
  activation->mode = mode;
  return CUDNN_STATUS_SUCCESS;
}
