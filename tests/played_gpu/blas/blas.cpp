// The played cuBLAS computes matrix products in single precision, also of bf16, with OpenBLAS in
// the handle's stream. The file includes cublas.h instead of cublas_v2.h, because StarPU calls some
// functions of the old interface. This is why names end in _v2.
#include <cblas.h>
#include <cublas.h>
#include <cublasLt.h>

#include <algorithm>
#include <optional>

#include "tests/played_gpu/blas/blas.hpp"
#include "tests/played_gpu/handles.hpp"
#include "tests/played_gpu/kernel.hpp"
#include "tests/played_gpu/rounding.hpp"
#include "tests/played_gpu/stream.hpp"

namespace omni::played {
namespace {

Handles<cublasHandle_t, Blas>& handles() {
  static auto* all = new Handles<cublasHandle_t, Blas>;  // never destroyed: used until the very end
  return *all;
}

template <class T>
struct Matrix {
  const T* begin;
  int rows, columns;  // as it lies in memory, column by column
  int leading;
  long long stride = 0;  // to the matrix of the next product

  std::size_t count() const { return region(1).bytes / sizeof(T); }
  bool valid() const { return leading >= std::max(1, rows); }
  Region region(int count) const {
    const std::size_t one =
        static_cast<std::size_t>(leading) * static_cast<std::size_t>(std::max(columns - 1, 0)) +
        static_cast<std::size_t>(rows);
    const std::size_t all = one + static_cast<std::size_t>(stride * (count - 1));
    return {begin, columns == 0 ? 0 : all * sizeof(T)};
  }
};

std::optional<CBLAS_TRANSPOSE> transposed(cublasOperation_t operation) {
  if (operation == CUBLAS_OP_N) return CblasNoTrans;
  if (operation == CUBLAS_OP_T || operation == CUBLAS_OP_C) return CblasTrans;
  return std::nullopt;
}

template <class T>
constexpr bool kIsBf16 = std::is_same_v<T, Bf16>;

// Computes `count` products. With a stride of zero, all products use the same matrix.
template <class T, class To>
cublasStatus_t multiply(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                        int m, int n, int k, const float* alpha, const T* a, int lda,
                        long long stride_a, const T* b, int ldb, long long stride_b,
                        const float* beta, To* c, int ldc, long long stride_c, int count,
                        int bits = kExact) {
  const auto blas = handles().find(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto flip_a = transposed(transa), flip_b = transposed(transb);
  if (!flip_a || !flip_b || m < 0 || n < 0 || k < 0 || count < 0 || alpha == nullptr ||
      beta == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool as_is_a = *flip_a == CblasNoTrans, as_is_b = *flip_b == CblasNoTrans;
  const Matrix<T> left{a, as_is_a ? m : k, as_is_a ? k : m, lda, stride_a};
  const Matrix<T> right{b, as_is_b ? k : n, as_is_b ? n : k, ldb, stride_b};
  const Matrix<To> result{c, m, n, ldc, stride_c};
  if (!left.valid() || !right.valid() || !result.valid()) return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0 || count == 0) return CUBLAS_STATUS_SUCCESS;
  return status_of(
      enqueue_kernel(blas->stream, {left.region(count), right.region(count), result.region(count)},
                     [=, scale = *alpha, keep = *beta] {
                       for (int i = 0; i < count; ++i) {
                         const Factors one_a(a + i * stride_a, left.count(), bits, kIsBf16<T>);
                         const Factors one_b(b + i * stride_b, right.count(), bits, kIsBf16<T>);
                         const Sums sums(c + i * stride_c, result.count(), kIsBf16<To>);
                         cblas_sgemm(CblasColMajor, *flip_a, *flip_b, m, n, k, scale, one_a.begin(),
                                     lda, one_b.begin(), ldb, keep, sums.begin(), ldc);
                       }
                     }));
}

}  // namespace

std::shared_ptr<Blas> find_blas(cublasHandle_t handle) { return handles().find(handle); }

std::optional<int> mantissa(cublasComputeType_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC: return kExact;
    case CUBLAS_COMPUTE_32F_FAST_TF32: return kTf32;
    case CUBLAS_COMPUTE_32F_FAST_16BF: return kCutToBf16;
    default: return std::nullopt;
  }
}

cublasStatus_t status_of(cudaError_t error) {
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  return error == cudaErrorInvalidResourceHandle ? CUBLAS_STATUS_INVALID_VALUE
                                                 : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace omni::played

using namespace omni::played;

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = handles().add(std::make_shared<Blas>());
  return CUBLAS_STATUS_SUCCESS;
}

// A real cublasDestroy may use the handle's stream. find_stream() ends the program if the stream
// does not exist any more.
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (const auto blas = handles().find(handle)) find_stream(blas->stream);
  return handles().remove(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  const auto blas = handles().find(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  blas->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

// The workspace is not used, because no product here needs one.
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void*, std::size_t) {
  return handles().find(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the GPU program failed to execute";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    default: return "unknown status";
  }
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa,
                              cublasOperation_t transb, int m, int n, int k, const float* alpha,
                              const float* a, int lda, const float* b, int ldb, const float* beta,
                              float* c, int ldc) {
  return multiply(handle, transa, transb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType a_type,
                                          int lda, long long stride_a, const void* b,
                                          cudaDataType b_type, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long stride_c, int count,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  const auto bits = mantissa(compute);
  if (a_type != b_type || !bits) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto multiply_as = [&]<class T, class To>(const T* left, To* result) {
    return multiply(handle, transa, transb, m, n, k, static_cast<const float*>(alpha), left, lda,
                    stride_a, static_cast<const T*>(b), ldb, stride_b,
                    static_cast<const float*>(beta), result, ldc, stride_c, count, *bits);
  };
  auto* const floats = static_cast<float*>(c);
  if (a_type == CUDA_R_32F && c_type == CUDA_R_32F)
    return multiply_as(static_cast<const float*>(a), floats);
  if (a_type != CUDA_R_16BF || compute != CUBLAS_COMPUTE_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto* const bf16 = static_cast<const omni::Bf16*>(a);
  if (c_type == CUDA_R_32F) return multiply_as(bf16, floats);
  return c_type == CUDA_R_16BF ? multiply_as(bf16, static_cast<omni::Bf16*>(c))
                               : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, a, a_type, lda, 0, b,
                                    b_type, ldb, 0, beta, c, c_type, ldc, 0, 1, compute, algorithm);
}

cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t trans, int m, int n,
                              const float* alpha, const float* a, int lda, const float* x, int incx,
                              const float* beta, float* y, int incy) {
  const auto blas = handles().find(handle);
  if (!blas) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto flip = transposed(trans);
  const Matrix<float> matrix{a, m, n, lda};
  if (!flip || m < 0 || n < 0 || !matrix.valid() || incx == 0 || incy == 0 || alpha == nullptr ||
      beta == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const bool as_is = *flip == CblasNoTrans;
  const Matrix<float> in{x, 1, as_is ? n : m, std::abs(incx)},
      out{y, 1, as_is ? m : n, std::abs(incy)};
  return status_of(enqueue_kernel(blas->stream, {matrix.region(1), in.region(1), out.region(1)},
                                  [=, scale = *alpha, keep = *beta] {
                                    cblas_sgemv(CblasColMajor, *flip, m, n, scale, a, lda, x, incx,
                                                keep, y, incy);
                                  }));
}

// StarPU's starpu_cublas_init and its relatives call the next functions.
cublasStatus cublasInit() { return CUBLAS_STATUS_SUCCESS; }
cublasStatus cublasShutdown() { return CUBLAS_STATUS_SUCCESS; }
cublasStatus cublasSetKernelStream(cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return cublasCreate_v2(reinterpret_cast<cublasHandle_t*>(handle));
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return cublasDestroy_v2(reinterpret_cast<cublasHandle_t>(handle));
}
