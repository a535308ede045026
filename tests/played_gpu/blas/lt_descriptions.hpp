// Descriptors and algorithms of cuBLASLt are opaque bytes. These functions read them and, if they
// belong together, make a product of them. A description that is not played ends the program.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "tests/played_gpu/device.hpp"

namespace omni::played {

struct LtOperation {
  static constexpr const char* kName = "a matrix product";
  std::uint64_t mark = 0;
  cublasComputeType_t compute{};
  std::int32_t transposed_a = CUBLAS_OP_N, transposed_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct LtLayout {
  static constexpr const char* kName = "a matrix layout";
  std::uint64_t mark = 0;
  cudaDataType_t type{};
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
};

struct LtPreference {
  static constexpr const char* kName = "a preference";
  std::uint64_t mark = 0, workspace = 0;
  std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment_a = 256, alignment_b = 256, alignment_c = 256, alignment_d = 256;
};

struct LtAlgorithm {
  static constexpr const char* kName = "an algorithm";
  std::uint64_t mark = 0;
  std::int32_t id = 0, splits = 1;
  std::uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  std::uint32_t version = CUBLAS_VERSION;
};

// Each type of contents begins with a different mark, so that bytes without a description are
// recognised.
template <class T>
constexpr std::uint64_t lt_mark() {
  std::uint64_t mark = 0xCB1A57;
  for (const char* c = T::kName; *c != 0; ++c)
    mark = mark * 1099511628211u + static_cast<std::uint64_t>(*c);
  return mark;
}

template <class T, class Opaque>
bool lt_described(const Opaque* opaque) {
  std::uint64_t mark = 0;
  if (opaque != nullptr) std::memcpy(&mark, opaque, sizeof mark);
  return mark == lt_mark<T>();
}

template <class T, class Opaque>
T lt_load(const Opaque* opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  if (!lt_described<T>(opaque))
    stop_program(std::string("cuBLASLt is given what is not ") + T::kName);
  T contents;
  std::memcpy(static_cast<void*>(&contents), opaque, sizeof contents);
  return contents;
}

template <class T, class Opaque>
void lt_store(T contents, Opaque* opaque) {
  contents.mark = lt_mark<T>();
  std::memcpy(opaque, &contents, sizeof contents);
}

// An LtProduct stands for D = alpha * op(A) * op(B) + beta * D, with matrices stored by columns.
struct LtProduct {
  int m = 0, n = 0, k = 0;
  bool transposed_a = false, transposed_b = false;
  int lda = 0, ldb = 0, ldd = 0;
  int mantissa = 0;  // the bits to which factors are rounded
  bool bf16_factors = false, bf16_result = false;
  bool adds_bias = false, relu = false;

  std::size_t count_a() const { return count(lda, transposed_a ? m : k, transposed_a ? k : m); }
  std::size_t count_b() const { return count(ldb, transposed_b ? k : n, transposed_b ? n : k); }
  std::size_t count_d() const { return count(ldd, n, m); }

 private:
  static std::size_t count(int leading, int columns, int rows) {
    return static_cast<std::size_t>(leading) * static_cast<std::size_t>(columns - 1) +
           static_cast<std::size_t>(rows);
  }
};

// Returns INVALID_VALUE if the descriptions do not fit together.
cublasStatus_t make_product(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                            cublasLtMatrixLayout_t d, LtProduct& made);

}  // namespace omni::played
