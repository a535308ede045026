// The played cuBLASLt computes products that may end in a bias and relu. It offers several
// algorithms, some of which have hidden faults.
#include "tests/played_gpu/blas/lt.hpp"

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "tests/played_gpu/blas/blas.hpp"
#include "tests/played_gpu/blas/lt_descriptions.hpp"
#include "tests/played_gpu/kernel.hpp"
#include "tests/played_gpu/rounding.hpp"

namespace omni::played {
namespace {

std::atomic<long> heuristics, products;
std::atomic<bool> refuses, loses_nan;

enum Id : std::int32_t {
  kPlain,        // works for everything
  kVectors,      // loads 16 bytes at once
  kParts,        // sums parts of k in a workspace, then adds them up; its relu makes 0 of NaN
  kInPlace,      // adds the parts of k to the result, in another order in every call
  kUnlaunchable  // is offered, but refuses when it is to run
};
constexpr int kSplits = 3;
constexpr unsigned kWide = 16;  // bytes

LtAlgorithm algorithm(Id id) {
  LtAlgorithm made{.id = id};
  if (id == kParts || id == kInPlace) {
    made.splits = kSplits;
    made.scheme =
        id == kParts ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_INPLACE;
  }
  return made;
}

std::size_t workspace_for(const LtAlgorithm& its, const LtProduct& product) {
  if (its.id == kInPlace) return 1024;
  const std::size_t part =
      static_cast<std::size_t>(product.m) * static_cast<std::size_t>(product.n);
  return its.id == kParts ? kSplits * part * sizeof(float) : 0;
}

bool in_wide_rows(const LtProduct& product) {
  const int factors = product.bf16_factors ? 8 : 4, result = product.bf16_result ? 8 : 4;
  return product.lda % factors == 0 && product.ldb % factors == 0 && product.ldd % result == 0;
}

cublasStatus_t check(const cublasLtMatmulAlgo_t* opaque, const LtProduct& product) {
  if (!lt_described<LtAlgorithm>(opaque)) return CUBLAS_STATUS_INVALID_VALUE;
  const auto its = lt_load<LtAlgorithm>(opaque);
  const auto real = algorithm(static_cast<Id>(its.id));
  if (its.id < kPlain || its.id > kUnlaunchable || its.splits != real.splits ||
      its.scheme != real.scheme || its.version != CUBLAS_VERSION)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool can = its.id == kVectors ? in_wide_rows(product) : its.splits <= product.k;
  return can ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

struct Operands {
  const void *a, *b;
  const float* bias;
  void* d;
};

bool wide(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % kWide == 0; }

// As with a real GPU, tensors that are not aligned break the device when the kernel runs.
bool aligned(const LtAlgorithm& its, const LtProduct& product, const Operands& on) {
  const bool factors = wide(on.a) && wide(on.b) && wide(on.d);
  if ((its.id != kVectors || factors) && (!product.adds_bias || wide(on.bias))) return true;
  owner_of(on.d)->fail(
      cudaErrorMisalignedAddress,
      fmt::format("a kernel of cuBLASLt reads or writes {} bytes at once, but {} does not begin "
                  "where they do",
                  kWide, factors ? "the bias" : "a matrix"));
  return false;
}

void multiply(const LtAlgorithm& its, const LtProduct& p, float alpha, float beta,
              const Operands& on) {
  const Factors a(on.a, p.count_a(), p.mantissa, p.bf16_factors),
      b(on.b, p.count_b(), p.mantissa, p.bf16_factors);
  const Sums sums(on.d, p.count_d(), p.bf16_result);
  static std::atomic<int> turn;
  const int first = its.id == kInPlace ? turn++ % kSplits : 0;
  for (int i = 0; i < its.splits; ++i) {
    const int part = (first + i) % its.splits;
    const int begin = p.k / its.splits * part;
    const int end = part + 1 == its.splits ? p.k : p.k / its.splits * (part + 1);
    cblas_sgemm(CblasColMajor, p.transposed_a ? CblasTrans : CblasNoTrans,
                p.transposed_b ? CblasTrans : CblasNoTrans, p.m, p.n, end - begin, alpha,
                a.begin() + std::ptrdiff_t{begin} * (p.transposed_a ? 1 : p.lda), p.lda,
                b.begin() + std::ptrdiff_t{begin} * (p.transposed_b ? p.ldb : 1), p.ldb,
                i == 0 ? beta : 1.0f, sums.begin(), p.ldd);
  }
  const bool keeps_nan = its.id != kParts && !loses_nan;
  for (int column = 0; column < p.n; ++column)
    for (int row = 0; row < p.m; ++row) {
      float& value = sums.begin()[std::ptrdiff_t{column} * p.ldd + row];
      if (p.adds_bias) value += on.bias[row];
      if (p.relu && (keeps_nan ? value < 0 : !(value > 0))) value = 0;
    }
}

Region region(const void* begin, std::size_t count, bool bf16 = false) {
  return {begin, count * (bf16 ? sizeof(Bf16) : sizeof(float))};
}

}  // namespace

LtCalls lt_calls() { return {heuristics, products}; }
void let_lt_refuse(bool all) { refuses = all; }
void let_relu_lose_nan(bool all) { loses_nan = all; }

}  // namespace omni::played

using namespace omni::played;

#define OMNI_PRODUCT(operation, a, b, c, d)                                                       \
  LtProduct product;                                                                              \
  if (!find_blas(reinterpret_cast<cublasHandle_t>(handle))) return CUBLAS_STATUS_NOT_INITIALIZED; \
  if (const auto status = make_product(operation, a, b, c, d, product);                           \
      status != CUBLAS_STATUS_SUCCESS)                                                            \
  return status

std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

// Lists the fastest algorithm first. Unlike a real cuBLASLt, it ignores the mask of reductions. So
// a caller that needs the same bits in every run must check the algorithms itself.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  OMNI_PRODUCT(operation, a, b, c, d);
  const auto wish = lt_load<LtPreference>(preference);
  if (wanted < 1 || results == nullptr || count == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  ++heuristics;
  if (refuses) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool wide_begin =
      std::min({wish.alignment_a, wish.alignment_b, wish.alignment_c, wish.alignment_d}) >= kWide;
  *count = 0;
  for (const Id id : {kUnlaunchable, kInPlace, kVectors, kParts, kPlain}) {
    cublasLtMatmulHeuristicResult_t result{};
    const LtAlgorithm its = algorithm(id);
    lt_store(its, &result.algo);
    result.workspaceSize = workspace_for(its, product);
    if (*count == wanted) break;
    if (check(&result.algo, product) != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > wish.workspace || (id == kVectors && !wide_begin))
      continue;
    results[(*count)++] = result;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* opaque,
                                       cublasLtMatmulHeuristicResult_t* result) {
  OMNI_PRODUCT(operation, a, b, c, d);
  if (result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = check(opaque, product);
  if (status == CUBLAS_STATUS_SUCCESS)
    result->workspaceSize = workspace_for(lt_load<LtAlgorithm>(opaque), product);
  return status;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* opaque,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  OMNI_PRODUCT(operation, a_layout, b_layout, c_layout, d_layout);
  if (opaque == nullptr) stop_program("cuBLASLt is played with an algorithm only");
  if (c != d) stop_program("cuBLASLt is played in place only");
  if (const auto status = check(opaque, product); status != CUBLAS_STATUS_SUCCESS) return status;
  const auto its = lt_load<LtAlgorithm>(opaque);
  if (its.id == kUnlaunchable) {
    noted(cudaErrorInvalidValue);  // a launch that fails leaves this error
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const std::size_t needed = workspace_for(its, product);
  const Operands on{a, b, static_cast<const float*>(lt_load<LtOperation>(operation).bias), d};
  if (alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || d == nullptr ||
      (product.adds_bias && on.bias == nullptr) || workspace_bytes < needed ||
      (needed != 0 && workspace == nullptr))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::vector<Region> used{region(on.a, product.count_a(), product.bf16_factors),
                           region(on.b, product.count_b(), product.bf16_factors),
                           region(on.d, product.count_d(), product.bf16_result)};
  if (product.adds_bias) used.push_back(region(on.bias, static_cast<std::size_t>(product.m)));
  if (workspace_bytes != 0) used.push_back({workspace, workspace_bytes});
  ++products;
  return status_of(enqueue_kernel(
      stream, std::move(used),
      [=, scale = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta)] {
        if (!aligned(its, product, on)) return;
        if (workspace_bytes != 0) std::memset(workspace, 0xFF, workspace_bytes);
        multiply(its, product, scale, keep, on);
      }));
}
