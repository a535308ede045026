// These tests check products of the played cuBLASLt that end in a bias or relu, and what it refuses
// or does not play.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/cuda/check.hpp"
#include "tests/played_gpu/tests/device_array.hpp"

namespace omni {
namespace {

using test::DeviceArray;

class CuBlasLt : public testing::Test {
 protected:
  CuBlasLt() {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    check(cublasCreate(&handle_), "cuBLAS");
    check(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "operation");
    check(cublasLtMatrixLayoutInit(&a_, CUDA_R_32F, 2, 3, 2), "a");
    check(cublasLtMatrixLayoutInit(&b_, CUDA_R_32F, 3, 1, 3), "b");
    check(cublasLtMatrixLayoutInit(&d_, CUDA_R_32F, 2, 1, 2), "d");
    check(cublasLtMatmulPreferenceInit(&preference_), "preference");
  }
  ~CuBlasLt() override { cublasDestroy(handle_); }

  template <class T>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, T value) {
    return cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof value);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> heuristics(cublasLtMatrixLayoutOpaque_t& d) {
    std::vector<cublasLtMatmulHeuristicResult_t> results(8);
    int count = 0;
    status_ = cublasLtMatmulAlgoGetHeuristic(lt(), &operation_, &a_, &b_, &d, &d, &preference_, 8,
                                             results.data(), &count);
    results.resize(static_cast<std::size_t>(count));
    return results;
  }
  // Uses the last algorithm, which needs neither a workspace nor an alignment.
  std::vector<float> product(const std::vector<float>& d, float beta) {
    const float one = 1;
    const DeviceArray a({1, 2, 3, 4, 5, 6}), b({1, 0, -1}), result(d);
    const auto found = heuristics(d_);
    check(cublasLtMatmul(lt(), &operation_, &one, a.begin(), &a_, b.begin(), &b_, &beta,
                         result.begin(), &d_, result.begin(), &d_, &found.back().algo, nullptr, 0,
                         nullptr),
          "product");
    return result.values(nullptr);
  }
  cublasLtHandle_t lt() const { return reinterpret_cast<cublasLtHandle_t>(handle_); }

  cublasHandle_t handle_ = nullptr;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t a_, b_, d_;
  cublasLtMatmulPreferenceOpaque_t preference_;
  cublasStatus_t status_{};
};

TEST_F(CuBlasLt, products_end_in_bias_and_relu) {
  const float nan = std::nanf("");
  const DeviceArray bias(std::vector<float>{-10, 100});
  EXPECT_EQ(product({nan, nan}, 0), (std::vector<float>{-4, -4}));
  EXPECT_EQ(product({1, 2}, 1), (std::vector<float>{-3, -2}));
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.begin()));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_BIAS});
  EXPECT_EQ(product({nan, nan}, 0), (std::vector<float>{-14, 96}));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_RELU_BIAS});
  EXPECT_EQ(product({nan, nan}, 0), (std::vector<float>{0, 96}));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_RELU});
  EXPECT_EQ(product({nan, nan}, 0), (std::vector<float>{0, 0}));
}

TEST_F(CuBlasLt, what_does_not_fit_together_is_refused) {
  EXPECT_FALSE(heuristics(d_).empty());
  cublasLtMatrixLayoutOpaque_t other;
  check(cublasLtMatrixLayoutInit(&other, CUDA_R_32F, 3, 1, 3), "d");
  heuristics(other);
  EXPECT_EQ(status_, CUBLAS_STATUS_INVALID_VALUE);
  check(cublasLtMatrixLayoutInit(&other, CUDA_R_32F, 2, 1, 1), "d");
  heuristics(other);
  EXPECT_EQ(status_, CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint64_t{CUBLASLT_EPILOGUE_BIAS}),
            CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CuBlasLt, only_algorithms_of_this_library_work) {
  cublasLtMatmulAlgo_t algorithm = heuristics(d_).back().algo;
  cublasLtMatmulHeuristicResult_t result;
  const auto checked = [&] {
    return cublasLtMatmulAlgoCheck(lt(), &operation_, &a_, &b_, &d_, &d_, &algorithm, &result);
  };
  EXPECT_EQ(checked(), CUBLAS_STATUS_SUCCESS);
  algorithm.data[1] ^= 0x100;
  EXPECT_EQ(checked(), CUBLAS_STATUS_INVALID_VALUE);
  algorithm = {};
  EXPECT_EQ(checked(), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CuBlasLt, what_is_not_played_ends_the_program) {
  EXPECT_DEATH(set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1}),
               "attribute 25 of a matrix product of cuBLASLt is not played");
  EXPECT_DEATH(set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_GELU}),
               "epilogue 32 of cuBLASLt is not played");
  EXPECT_DEATH(
      {
        cublasLtMatrixLayoutInit(&d_, CUDA_R_16F, 2, 1, 2);
        heuristics(d_);
      },
      "cuBLASLt is played for floats and bf16 only");
  EXPECT_DEATH(
      {
        d_ = {};
        heuristics(d_);
      },
      "cuBLASLt is given what is not a matrix layout");
}

}  // namespace
}  // namespace omni
