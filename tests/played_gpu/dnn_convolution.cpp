// cuDNN's convolutions. Of each kind two algorithms are played: number 0 needs no workspace and,
// backward, says that its sums come in any order; number 1 needs a workspace. Unless the descriptor
// says FMA_MATH, both round to TF32.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/played_gpu/dnn_loops.hpp"
#include "tests/played_gpu/kernel.hpp"
#include "tests/played_gpu/rounding.hpp"

namespace omni::played {
namespace {

template <class Algorithm>
cudnnStatus_t workspace_for(const Convolution& shape, Algorithm algorithm, std::size_t& bytes) {
  if (algorithm != 0 && algorithm != 1) return CUDNN_STATUS_NOT_SUPPORTED;
  bytes = algorithm == 0 ? 0 : shape.filter_count() * sizeof(float);
  return CUDNN_STATUS_SUCCESS;
}

// The fastest first: one that needs a workspace and rounds, one that is not deterministic
// (backward), and the one that everybody can use.
template <class Result>
cudnnStatus_t list_algorithms(const Convolution& shape, int wanted, int* count, Result* results) {
  struct Entry {
    int number;
    cudnnMathType_t math;
  };
  const cudnnMathType_t math = shape.mantissa == kExact ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
  if (wanted < 1 || count == nullptr || results == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *count = 0;
  for (const Entry entry : {Entry{1, CUDNN_DEFAULT_MATH}, Entry{0, math}, Entry{1, math}}) {
    if (*count == wanted) break;
    Result result{};
    result.algo = static_cast<decltype(result.algo)>(entry.number);
    result.status = workspace_for(shape, result.algo, result.memory);
    result.time = static_cast<float>(*count + 1);
    const bool any_order =
        entry.number == 0 && !std::is_same_v<Result, cudnnConvolutionFwdAlgoPerf_t>;
    result.determinism = any_order ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
    result.mathType = entry.math;
    results[(*count)++] = result;
  }
  return CUDNN_STATUS_SUCCESS;
}

// So many values of a convolution's x, y or filter.
Region values(const Convolution& shape, const void* begin, std::size_t count) {
  return {begin, count * (shape.bf16 ? sizeof(std::uint16_t) : sizeof(float))};
}

// Those as floats: themselves, or while this lives, a copy.
class Floats {
 public:
  Floats(const Convolution& shape, const void* begin, std::size_t count)
      : bf16_(shape.bf16 ? static_cast<const std::uint16_t*>(begin) : nullptr),
        floats_(static_cast<float*>(const_cast<void*>(begin))) {
    if (bf16_ == nullptr) return;
    copy_.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      copy_[i] = std::bit_cast<float>(std::uint32_t{bf16_[i]} << 16);
    floats_ = copy_.data();
  }
  float* begin() { return floats_; }
  // Puts them where they came from.
  void back(void* begin) const {
    if (bf16_ == nullptr) return;
    for (std::size_t i = 0; i < copy_.size(); ++i)
      static_cast<std::uint16_t*>(begin)[i] =
          static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded(copy_[i], kBf16)) >> 16);
  }

 private:
  const std::uint16_t* bf16_;
  float* floats_;
  std::vector<float> copy_;
};

cudnnStatus_t submit(cudnnHandle_t handle, std::vector<Region> used, Work kernel) {
  return enqueue_kernel(handle->stream, std::move(used), std::move(kernel)) == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}

struct Workspace {
  void* begin;
  std::size_t bytes;
};

// `kernel(scales)` in the handle's stream, after the workspace has been written all over.
template <class Algorithm, class Kernel>
cudnnStatus_t run(cudnnHandle_t handle, const Convolution& shape, Algorithm algorithm,
                  const Workspace& workspace, const void* alpha, const void* beta,
                  std::vector<Region> used, Kernel kernel) {
  std::size_t needed = 0;
  if (handle == nullptr || alpha == nullptr || beta == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (const auto status = workspace_for(shape, algorithm, needed); status != CUDNN_STATUS_SUCCESS)
    return status;
  if (workspace.bytes < needed || (needed != 0 && workspace.begin == nullptr))
    return CUDNN_STATUS_BAD_PARAM;
  if (needed != 0) used.push_back({workspace.begin, needed});
  const Scales scales{*static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
  return submit(handle, std::move(used), [=] {
    if (needed != 0) std::memset(workspace.begin, 0xFF, needed);
    kernel(scales);
  });
}

// What is done after the sums, with tensors of the convolution's type.
struct Epilogue {
  const void *added = nullptr, *bias = nullptr;  // see Fused
  bool relu = false;
};

cudnnStatus_t run_forward(cudnnHandle_t handle, const Convolution& shape, const void* x,
                          const void* w, cudnnConvolutionFwdAlgo_t algorithm,
                          const Workspace& workspace, const void* alpha, const void* beta,
                          const Epilogue& epilogue, void* y) {
  std::vector<Region> used{values(shape, x, shape.x_count()),
                           values(shape, w, shape.filter_count()),
                           values(shape, y, shape.y_count())};
  const std::size_t added = epilogue.added != nullptr ? shape.y_count() : 0;
  const std::size_t biases = epilogue.bias != nullptr ? static_cast<std::size_t>(shape.k) : 0;
  if (added != 0) used.push_back(values(shape, epilogue.added, added));
  if (biases != 0) used.push_back(values(shape, epilogue.bias, biases));
  return run(handle, shape, algorithm, workspace, alpha, beta, std::move(used), [=](Scales scales) {
    Floats from(shape, x, shape.x_count()), filter(shape, w, shape.filter_count());
    Floats to(shape, y, shape.y_count());
    Floats z(shape, epilogue.added, added), bias(shape, epilogue.bias, biases);
    const Fused fused{added != 0 ? z.begin() : nullptr, biases != 0 ? bias.begin() : nullptr,
                      epilogue.relu};
    forward(shape, from.begin(), filter.begin(), scales, fused, to.begin());
    to.back(y);
  });
}

}  // namespace
}  // namespace omni::played

using namespace omni::played;

// Every function begins like this; the arguments are the descriptors.
#define OMNI_SHAPE(x, w, convolution, y)                                 \
  Convolution shape;                                                     \
  if (const auto status = make_convolution(x, w, convolution, y, shape); \
      status != CUDNN_STATUS_SUCCESS)                                    \
  return status

// ---- forward ----
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t x_shape, cudnnFilterDescriptor_t w_shape,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y_shape,
    cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  OMNI_SHAPE(x_shape, w_shape, convolution, y_shape);
  return workspace_for(shape, algorithm, *bytes);
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x_shape,
                                                     cudnnFilterDescriptor_t w_shape,
                                                     cudnnConvolutionDescriptor_t convolution,
                                                     cudnnTensorDescriptor_t y_shape, int wanted,
                                                     int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  OMNI_SHAPE(x_shape, w_shape, convolution, y_shape);
  return list_algorithms(shape, wanted, count, results);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x_shape, const void* x,
                                      cudnnFilterDescriptor_t w_shape, const void* w,
                                      cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      std::size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_shape, void* y) {
  OMNI_SHAPE(x_shape, w_shape, convolution, y_shape);
  return run_forward(handle, shape, x, w, algorithm, {workspace, workspace_bytes}, alpha, beta, {},
                     y);
}

cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_shape, const void* x,
    cudnnFilterDescriptor_t w_shape, const void* w, cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, std::size_t workspace_bytes,
    const void* alpha2, cudnnTensorDescriptor_t z_shape, const void* z,
    cudnnTensorDescriptor_t bias_shape, const void* bias, cudnnActivationDescriptor_t activation,
    cudnnTensorDescriptor_t y_shape, void* y) {
  OMNI_SHAPE(x_shape, w_shape, convolution, y_shape);
  if (activation == nullptr || z_shape == nullptr || z_shape->size != y_shape->size ||
      bias_shape == nullptr || bias_shape->size != std::array{1, shape.k, 1, 1})
    return CUDNN_STATUS_BAD_PARAM;
  if (bias_shape->type != x_shape->type || z_shape->type != x_shape->type)
    return CUDNN_STATUS_BAD_PARAM;
  const bool relu = activation->mode == CUDNN_ACTIVATION_RELU;
  const bool identity = activation->mode == CUDNN_ACTIVATION_IDENTITY;
  // As the real one says: without an activation, this algorithm only.
  if (!relu && (!identity || algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM))
    return CUDNN_STATUS_NOT_SUPPORTED;
  return run_forward(handle, shape, x, w, algorithm, {workspace, workspace_bytes}, alpha, alpha2,
                     {z, bias, relu}, y);
}

// ---- the gradient of the data ----
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, cudnnFilterDescriptor_t w_shape, cudnnTensorDescriptor_t y_shape,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t x_shape,
    cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
  OMNI_SHAPE(x_shape, w_shape, convolution, y_shape);
  return workspace_for(shape, algorithm, *bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, cudnnFilterDescriptor_t w_shape, cudnnTensorDescriptor_t y_shape,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t x_shape, int wanted,
    int* count, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  OMNI_SHAPE(x_shape, w_shape, convolution, y_shape);
  return list_algorithms(shape, wanted, count, results);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w_shape, const void* w,
                                           cudnnTensorDescriptor_t y_shape, const void* diff_y,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t x_shape, void* diff_x) {
  OMNI_SHAPE(x_shape, w_shape, convolution, y_shape);
  return run(handle, shape, algorithm, {workspace, workspace_bytes}, alpha, beta,
             {values(shape, w, shape.filter_count()), values(shape, diff_y, shape.y_count()),
              values(shape, diff_x, shape.x_count())},
             [=](Scales scales) {
               Floats filter(shape, w, shape.filter_count());
               Floats from(shape, diff_y, shape.y_count()), to(shape, diff_x, shape.x_count());
               backward_data(shape, filter.begin(), from.begin(), scales, to.begin());
               to.back(diff_x);
             });
}

// ---- the gradient of the filters ----
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t x_shape, cudnnTensorDescriptor_t y_shape,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t w_shape,
    cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  OMNI_SHAPE(x_shape, w_shape, convolution, y_shape);
  return workspace_for(shape, algorithm, *bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t x_shape, cudnnTensorDescriptor_t y_shape,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t w_shape, int wanted,
    int* count, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  OMNI_SHAPE(x_shape, w_shape, convolution, y_shape);
  return list_algorithms(shape, wanted, count, results);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_shape, const void* x,
    cudnnTensorDescriptor_t y_shape, const void* diff_y, cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace, std::size_t workspace_bytes,
    const void* beta, cudnnFilterDescriptor_t w_shape, void* diff_w) {
  OMNI_SHAPE(x_shape, w_shape, convolution, y_shape);
  return run(handle, shape, algorithm, {workspace, workspace_bytes}, alpha, beta,
             {values(shape, x, shape.x_count()), values(shape, diff_y, shape.y_count()),
              values(shape, diff_w, shape.filter_count())},
             [=](Scales scales) {
               Floats left(shape, x, shape.x_count()), right(shape, diff_y, shape.y_count());
               Floats to(shape, diff_w, shape.filter_count());
               backward_filter(shape, left.begin(), right.begin(), scales, to.begin());
               to.back(diff_w);
             });
}
