#include "tests/played_gpu/blas/lt_descriptions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tests/played_gpu/blas/blas.hpp"

namespace omni::played {
namespace {

template <class T>
cublasStatus_t set(T& value, const void* from, std::size_t bytes) {
  if (from == nullptr || bytes != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&value, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t get(const T& value, void* to, std::size_t bytes, std::size_t* written) {
  if (to == nullptr || bytes != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, &value, bytes);
  if (written != nullptr) *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

template <class Attribute>
[[noreturn]] void stop_at(const char* of, Attribute attribute) {
  stop_program(
      fmt::format("attribute {} of {} of cuBLASLt is not played", static_cast<int>(attribute), of));
}

}  // namespace

cublasStatus_t make_product(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                            cublasLtMatrixLayout_t d, LtProduct& made) {
  const auto its = lt_load<LtOperation>(operation);
  const auto left = lt_load<LtLayout>(a), right = lt_load<LtLayout>(b), old = lt_load<LtLayout>(c),
             result = lt_load<LtLayout>(d);
  for (const LtLayout& each : {left, right, old, result}) {
    if (each.type != CUDA_R_32F && each.type != CUDA_R_16BF)
      stop_program("cuBLASLt is played for floats and bf16 only");
    if (each.rows == 0 || each.columns == 0 ||
        each.leading < static_cast<std::int64_t>(each.rows) ||
        std::max<std::uint64_t>(
            {each.rows, each.columns, static_cast<std::uint64_t>(each.leading)}) >
            std::numeric_limits<int>::max())
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (left.type != right.type || old.type != result.type ||
      (left.type == CUDA_R_32F && result.type != CUDA_R_32F) ||
      (left.type == CUDA_R_16BF && its.compute != CUBLAS_COMPUTE_32F))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool flip_a = its.transposed_a == CUBLAS_OP_T, flip_b = its.transposed_b == CUBLAS_OP_T;
  const std::uint64_t k = flip_a ? left.rows : left.columns;
  if ((flip_a ? left.columns : left.rows) != result.rows ||
      (flip_b ? right.rows : right.columns) != result.columns ||
      (flip_b ? right.columns : right.rows) != k || old.rows != result.rows ||
      old.columns != result.columns)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (old.leading != result.leading) stop_program("cuBLASLt is played in place only");
  const auto bits = mantissa(its.compute);
  if (!bits)
    stop_program(
        fmt::format("compute type {} of cuBLASLt is not played", static_cast<int>(its.compute)));
  const auto integer = [](auto value) { return static_cast<int>(value); };
  made = {.m = integer(result.rows),
          .n = integer(result.columns),
          .k = integer(k),
          .transposed_a = flip_a,
          .transposed_b = flip_b,
          .lda = integer(left.leading),
          .ldb = integer(right.leading),
          .ldd = integer(result.leading),
          .mantissa = *bits,
          .bf16_factors = left.type == CUDA_R_16BF,
          .bf16_result = result.type == CUDA_R_16BF,
          .adds_bias = (its.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0,
          .relu = (its.epilogue & CUBLASLT_EPILOGUE_RELU) != 0};
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace omni::played

using namespace omni::played;

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t operation, std::size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  if (size < sizeof(LtOperation)) return CUBLAS_STATUS_ALLOC_FAILED;
  if (scale != CUDA_R_32F) stop_program("cuBLASLt is played for factors that are floats only");
  lt_store(LtOperation{.compute = compute}, operation);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  auto its = lt_load<LtOperation>(operation);
  const cublasStatus_t status = [&] {
    switch (attribute) {
      case CUBLASLT_MATMUL_DESC_TRANSA: return set(its.transposed_a, value, bytes);
      case CUBLASLT_MATMUL_DESC_TRANSB: return set(its.transposed_b, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(its.epilogue, value, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(its.bias, value, bytes);
      default: stop_at("a matrix product", attribute);
    }
  }();
  for (const std::int32_t flip : {its.transposed_a, its.transposed_b})
    if (flip != CUBLAS_OP_N && flip != CUBLAS_OP_T)
      stop_program(fmt::format("operation {} of cuBLASLt is not played", flip));
  if ((its.epilogue & ~unsigned{CUBLASLT_EPILOGUE_RELU_BIAS}) != 0 &&
      its.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    stop_program(fmt::format("epilogue {} of cuBLASLt is not played", its.epilogue));
  if (status == CUBLAS_STATUS_SUCCESS) lt_store(its, operation);
  return status;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t size,
                                                 cudaDataType type, std::uint64_t rows,
                                                 std::uint64_t columns, std::int64_t leading) {
  if (size < sizeof(LtLayout)) return CUBLAS_STATUS_ALLOC_FAILED;
  lt_store(LtLayout{.type = type, .rows = rows, .columns = columns, .leading = leading}, layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     std::size_t size) {
  if (size < sizeof(LtPreference)) return CUBLAS_STATUS_ALLOC_FAILED;
  lt_store(LtPreference{}, preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  auto its = lt_load<LtPreference>(preference);
  const cublasStatus_t status = [&] {
    switch (attribute) {
      case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(its.workspace, value, bytes);
      case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(its.schemes, value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return set(its.alignment_a, value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return set(its.alignment_b, value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return set(its.alignment_c, value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(its.alignment_d, value, bytes);
      default: stop_at("a preference", attribute);
    }
  }();
  if (status == CUBLAS_STATUS_SUCCESS) lt_store(its, preference);
  return status;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* written) {
  const auto its = lt_load<LtAlgorithm>(algorithm);
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID: return get(its.id, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: return get(its.splits, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME: return get(its.scheme, value, bytes, written);
    default: stop_at("an algorithm", attribute);
  }
}
