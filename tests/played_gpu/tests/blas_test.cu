// These tests compare the played cuBLAS with plain loops in double precision, and check what it
// refuses.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/cuda/check.hpp"
#include "tests/played_gpu/tests/device_array.hpp"

namespace omni {
namespace {

using test::DeviceArray;
using test::TestStream;

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(seed >> 8) / (1 << 23) - 1;
  }
  return values;
}

std::size_t at(int index) { return static_cast<std::size_t>(index); }

void expect_near(const std::vector<float>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << "value " << i;
}

struct Blas {
  explicit Blas(cudaStream_t stream) {
    check(cublasCreate(&handle), "cuBLAS");
    check(cublasSetStream(handle, stream), "cuBLAS");
  }
  ~Blas() { cublasDestroy(handle); }
  cublasHandle_t handle;
};

// Computes alpha op(a) op(b) + beta c, column by column.
std::vector<double> product(bool flip_a, bool flip_b, int m, int n, int k, double alpha,
                            const float* a, int lda, const float* b, int ldb, double beta,
                            const float* c, int ldc) {
  std::vector<double> result;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < ldc; ++i) {
      double sum = 0;
      for (int l = 0; l < k && i < m; ++l)
        sum +=
            double{a[flip_a ? i * lda + l : l * lda + i]} * b[flip_b ? l * ldb + j : j * ldb + l];
      result.push_back(i < m ? alpha * sum + beta * c[j * ldc + i] : c[j * ldc + i]);
    }
  return result;
}

TEST(CuBlas, products_of_all_orientations) {
  TestStream stream;
  const Blas blas(stream);
  constexpr int m = 5, n = 7, k = 3, lda = 6, ldb = 8, ldc = 9;
  const float alpha = 1.5f, beta = 0.25f;
  const auto a = numbers(lda * 6, 1), b = numbers(ldb * 8, 2), c = numbers(ldc * n, 3);
  for (const bool flip_a : {false, true})
    for (const bool flip_b : {false, true}) {
      const DeviceArray left(a), right(b), result(c);
      EXPECT_EQ(cublasSgemm(blas.handle, flip_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                            flip_b ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &alpha, left.begin(), lda,
                            right.begin(), ldb, &beta, result.begin(), ldc),
                CUBLAS_STATUS_SUCCESS);
      expect_near(result.values(stream), product(flip_a, flip_b, m, n, k, alpha, a.data(), lda,
                                                 b.data(), ldb, beta, c.data(), ldc));
    }
}

TEST(CuBlas, with_beta_zero_the_target_is_not_read) {
  TestStream stream;
  const Blas blas(stream);
  const float one = 1, zero = 0;
  const DeviceArray left(std::vector<float>{2}), right(std::vector<float>{3});
  const DeviceArray result(std::vector<float>{NAN});
  EXPECT_EQ(cublasGemmEx(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, left.begin(),
                         CUDA_R_32F, 1, right.begin(), CUDA_R_32F, 1, &zero, result.begin(),
                         CUDA_R_32F, 1, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(result.values(stream), std::vector<float>{6});
}

TEST(CuBlas, bf16_to_floats) {
  TestStream stream;
  const Blas blas(stream);
  const float one = 1, zero = 0;
  const DeviceArray factors(std::vector<float>{std::bit_cast<float>(0x3f80'4040u)});  // 3, then 1
  const DeviceArray result(1);
  const auto multiply = [&](cudaDataType b_type, cublasComputeType_t compute) {
    return cublasGemmEx(blas.handle, CUBLAS_OP_N, CUBLAS_OP_T, 1, 1, 2, &one, factors.begin(),
                        CUDA_R_16BF, 1, factors.begin(), b_type, 1, &zero, result.begin(),
                        CUDA_R_32F, 1, compute, CUBLAS_GEMM_DEFAULT);
  };
  EXPECT_EQ(multiply(CUDA_R_16BF, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(result.values(stream), std::vector<float>{10});
  EXPECT_EQ(multiply(CUDA_R_32F, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(multiply(CUDA_R_16BF, CUBLAS_COMPUTE_32F_FAST_TF32), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(CuBlas, batches_and_vectors) {
  TestStream stream;
  const Blas blas(stream);
  const float one = 1, zero = 0;
  const auto a = numbers(2 * 6, 1), b = numbers(2 * 12, 2);
  const DeviceArray left(a), right(b), result(2 * 8), vector(2);
  EXPECT_EQ(cublasGemmStridedBatchedEx(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 4, 3, &one,
                                       left.begin(), CUDA_R_32F, 2, 6, right.begin(), CUDA_R_32F, 3,
                                       12, &zero, result.begin(), CUDA_R_32F, 2, 8, 2,
                                       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  const std::vector<float> nothing(8);
  std::vector<double> expected;
  for (const int i : {0, 1})
    for (const double value : product(false, false, 2, 4, 3, 1, a.data() + 6 * i, 2,
                                      b.data() + 12 * i, 3, 0, nothing.data(), 2))
      expected.push_back(value);
  expect_near(result.values(stream), expected);
  EXPECT_EQ(cublasSgemv(blas.handle, CUBLAS_OP_N, 2, 3, &one, left.begin(), 2, right.begin(), 1,
                        &zero, vector.begin(), 1),
            CUBLAS_STATUS_SUCCESS);
  expect_near(vector.values(stream), {expected[0], expected[1]});
}

TEST(CuBlas, a_leading_dimension_that_is_too_small_is_refused) {
  TestStream stream;
  const Blas blas(stream);
  const float one = 1;
  const DeviceArray data(100);
  EXPECT_EQ(cublasSgemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, data.begin(), 3,
                        data.begin(), 4, &one, data.begin(), 4),
            CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace omni
