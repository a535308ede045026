// cuBLAS and cuDNN against plain loops in double precision, and what they refuse.
#include <gtest/gtest.h>

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

// alpha op(a) op(b) + beta c, column by column.
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

struct ConvolutionCase {
  const char* name;
  int n, h, w, c, k, filter_h, filter_w, pad, stride, dilation, groups;
  int out(int size, int filter) const {
    return 1 + (size + 2 * pad - ((filter - 1) * dilation + 1)) / stride;
  }
};

class CuDnn : public testing::Test {
 protected:
  CuDnn() {
    check(cudnnCreate(&handle_), "cuDNN");
    check(cudnnSetStream(handle_, stream_), "cuDNN");
    check(cudnnCreateTensorDescriptor(&x_), "cuDNN");
    check(cudnnCreateTensorDescriptor(&y_), "cuDNN");
    check(cudnnCreateFilterDescriptor(&w_), "cuDNN");
    check(cudnnCreateConvolutionDescriptor(&convolution_), "cuDNN");
  }
  ~CuDnn() override {
    cudnnDestroyConvolutionDescriptor(convolution_);
    cudnnDestroyFilterDescriptor(w_);
    cudnnDestroyTensorDescriptor(y_);
    cudnnDestroyTensorDescriptor(x_);
    cudnnDestroy(handle_);
  }

  void describe(const ConvolutionCase& s) {
    out_h_ = s.out(s.h, s.filter_h);
    out_w_ = s.out(s.w, s.filter_w);
    const auto nhwc = CUDNN_TENSOR_NHWC;
    const auto real = CUDNN_DATA_FLOAT;
    check(cudnnSetTensor4dDescriptor(x_, nhwc, real, s.n, s.c, s.h, s.w), "x");
    check(cudnnSetTensor4dDescriptor(y_, nhwc, real, s.n, s.k, out_h_, out_w_), "y");
    check(cudnnSetFilter4dDescriptor(w_, real, nhwc, s.k, s.c / s.groups, s.filter_h, s.filter_w),
          "w");
    check(cudnnSetConvolution2dDescriptor(convolution_, s.pad, s.pad, s.stride, s.stride,
                                          s.dilation, s.dilation, CUDNN_CROSS_CORRELATION, real),
          "convolution");
    check(cudnnSetConvolutionGroupCount(convolution_, s.groups), "groups");
    check(cudnnSetConvolutionMathType(convolution_, CUDNN_FMA_MATH), "math");
    x_values_ = numbers(at(s.n * s.h * s.w * s.c), 1);
    w_values_ = numbers(at(s.k * s.filter_h * s.filter_w * (s.c / s.groups)), 2);
    y_values_ = numbers(at(s.n * out_h_ * out_w_ * s.k), 3);
  }

  // use(index in y, in x, in w) for all that are multiplied with each other.
  template <class Use>
  void for_each_product(const ConvolutionCase& s, Use use) {
    for (int n = 0; n < s.n; ++n)
      for (int p = 0; p < out_h_; ++p)
        for (int q = 0; q < out_w_; ++q)
          for (int k = 0; k < s.k; ++k)
            for (int r = 0; r < s.filter_h; ++r)
              for (int t = 0; t < s.filter_w; ++t)
                for (int c = 0; c < s.c / s.groups; ++c) {
                  const int h = p * s.stride - s.pad + r * s.dilation;
                  const int w = q * s.stride - s.pad + t * s.dilation;
                  if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
                  const int group = k / (s.k / s.groups);
                  use(at(((n * out_h_ + p) * out_w_ + q) * s.k + k),
                      at(((n * s.h + h) * s.w + w) * s.c + group * (s.c / s.groups) + c),
                      at(((k * s.filter_h + r) * s.filter_w + t) * (s.c / s.groups) + c));
                }
  }

  TestStream stream_;
  cudnnHandle_t handle_;
  cudnnTensorDescriptor_t x_, y_;
  cudnnFilterDescriptor_t w_;
  cudnnConvolutionDescriptor_t convolution_;
  int out_h_ = 0, out_w_ = 0;
  std::vector<float> x_values_, y_values_, w_values_;
};

const ConvolutionCase kCases[]{
    {"usual", 2, 7, 6, 4, 5, 3, 3, 1, 1, 1, 1},
    {"one of everything", 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1},
    {"strided, rows left over", 1, 8, 9, 3, 2, 3, 2, 0, 2, 1, 1},
    {"dilated in groups", 2, 9, 7, 4, 6, 3, 3, 2, 1, 2, 2},
    {"depthwise", 1, 5, 5, 4, 4, 3, 3, 1, 1, 1, 4},
    {"more padding than image", 1, 2, 2, 3, 2, 5, 5, 3, 1, 1, 1},
};

TEST_F(CuDnn, convolutions_with_both_algorithms) {
  const float alpha = 0.5f, beta = 2;
  for (const auto& one : kCases)
    for (const int number : {0, 1}) {
      SCOPED_TRACE(std::string(one.name) + ", algorithm " + std::to_string(number));
      describe(one);
      const DeviceArray x(x_values_), y(y_values_), w(w_values_);
      const auto forward = static_cast<cudnnConvolutionFwdAlgo_t>(number);
      const auto data = static_cast<cudnnConvolutionBwdDataAlgo_t>(number);
      const auto filter = static_cast<cudnnConvolutionBwdFilterAlgo_t>(number);
      std::size_t bytes[3];
      check(cudnnGetConvolutionForwardWorkspaceSize(handle_, x_, w_, convolution_, y_, forward,
                                                    &bytes[0]),
            "workspace");
      check(cudnnGetConvolutionBackwardDataWorkspaceSize(handle_, w_, y_, convolution_, x_, data,
                                                         &bytes[1]),
            "workspace");
      check(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle_, x_, y_, convolution_, w_,
                                                           filter, &bytes[2]),
            "workspace");
      const DeviceArray workspace(std::max({bytes[0], bytes[1], bytes[2], std::size_t{4}}) / 4 + 1);

      std::vector<double> sums(y_values_.size());
      for_each_product(one, [&](std::size_t i, std::size_t j, std::size_t l) {
        sums[i] += double{x_values_[j]} * w_values_[l];
      });
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = alpha * sums[i] + beta * y_values_[i];
      check(cudnnConvolutionForward(handle_, &alpha, x_, x.begin(), w_, w.begin(), convolution_,
                                    forward, workspace.begin(), bytes[0], &beta, y_, y.begin()),
            "forward");
      expect_near(y.values(stream_), sums);

      const DeviceArray diff_y(y_values_), diff_x(x_values_), diff_w(w_values_);
      sums.assign(x_values_.size(), 0);
      for_each_product(one, [&](std::size_t i, std::size_t j, std::size_t l) {
        sums[j] += double{y_values_[i]} * w_values_[l];
      });
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = alpha * sums[i] + beta * x_values_[i];
      check(cudnnConvolutionBackwardData(handle_, &alpha, w_, w.begin(), y_, diff_y.begin(),
                                         convolution_, data, workspace.begin(), bytes[1], &beta, x_,
                                         diff_x.begin()),
            "backward data");
      expect_near(diff_x.values(stream_), sums);

      sums.assign(w_values_.size(), 0);
      for_each_product(one, [&](std::size_t i, std::size_t j, std::size_t l) {
        sums[l] += double{x_values_[j]} * y_values_[i];
      });
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = alpha * sums[i] + beta * w_values_[i];
      check(cudnnConvolutionBackwardFilter(handle_, &alpha, x_, x.begin(), y_, diff_y.begin(),
                                           convolution_, filter, workspace.begin(), bytes[2], &beta,
                                           w_, diff_w.begin()),
            "backward filter");
      expect_near(diff_w.values(stream_), sums);
    }
}

TEST_F(CuDnn, bias_and_relu_in_one) {
  describe(kCases[0]);
  const auto bias_values = numbers(5, 4);
  const DeviceArray x(x_values_), w(w_values_), bias(bias_values), y(y_values_.size());
  cudnnTensorDescriptor_t bias_shape;
  cudnnActivationDescriptor_t activation;
  check(cudnnCreateTensorDescriptor(&bias_shape), "bias");
  check(cudnnSetTensor4dDescriptor(bias_shape, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 5, 1, 1),
        "bias");
  check(cudnnCreateActivationDescriptor(&activation), "activation");
  std::size_t bytes = 0;
  const auto algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  check(
      cudnnGetConvolutionForwardWorkspaceSize(handle_, x_, w_, convolution_, y_, algorithm, &bytes),
      "workspace");
  const DeviceArray workspace(bytes / 4 + 1);
  std::vector<double> sums(y_values_.size());
  for_each_product(kCases[0], [&](std::size_t i, std::size_t j, std::size_t l) {
    sums[i] += double{x_values_[j]} * w_values_[l];
  });
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += bias_values[i % 5];
  const float one = 1, zero = 0;
  const auto run = [&](cudnnActivationMode_t mode) {
    check(cudnnSetActivationDescriptor(activation, mode, CUDNN_PROPAGATE_NAN, 0), "activation");
    return cudnnConvolutionBiasActivationForward(
        handle_, &one, x_, x.begin(), w_, w.begin(), convolution_, algorithm, workspace.begin(),
        bytes, &zero, y_, y.begin(), bias_shape, bias.begin(), activation, y_, y.begin());
  };
  EXPECT_EQ(run(CUDNN_ACTIVATION_IDENTITY), CUDNN_STATUS_SUCCESS);
  expect_near(y.values(stream_), sums);
  EXPECT_EQ(run(CUDNN_ACTIVATION_RELU), CUDNN_STATUS_SUCCESS);
  for (double& sum : sums) sum = std::max(sum, 0.0);
  expect_near(y.values(stream_), sums);
  EXPECT_NE(run(CUDNN_ACTIVATION_TANH), CUDNN_STATUS_SUCCESS);
  cudnnDestroyActivationDescriptor(activation);
  cudnnDestroyTensorDescriptor(bias_shape);
}

// Not with FMA_MATH: rounded factors are allowed, and no more than that.
TEST_F(CuDnn, default_math_may_round_the_factors) {
  describe(kCases[0]);
  const float one = 1, zero = 0;
  const DeviceArray x(x_values_), w(w_values_), y(y_values_.size());
  const auto run = [&](cudnnMathType_t math) {
    check(cudnnSetConvolutionMathType(convolution_, math), "math");
    check(cudnnConvolutionForward(handle_, &one, x_, x.begin(), w_, w.begin(), convolution_,
                                  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero, y_,
                                  y.begin()),
          "forward");
    return y.values(stream_);
  };
  const auto exact = run(CUDNN_FMA_MATH), rounded = run(CUDNN_DEFAULT_MATH);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(rounded[i], exact[i], 0.02);
}

// Most real algorithms say this; the played ones all do, so that what happens then is tested.
TEST_F(CuDnn, padding_as_large_as_the_filter_is_not_supported) {
  describe({"far", 1, 5, 5, 1, 1, 3, 3, 5, 1, 2, 1});
  std::size_t bytes = 0;
  EXPECT_EQ(
      cudnnGetConvolutionForwardWorkspaceSize(handle_, x_, w_, convolution_, y_,
                                              CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &bytes),
      CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_F(CuDnn, shapes_that_do_not_fit_together_are_refused) {
  const float one = 1;
  describe(kCases[0]);
  const DeviceArray data(10000);
  const auto run = [&] {
    return cudnnConvolutionForward(handle_, &one, x_, data.begin(), w_, data.begin(), convolution_,
                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &one, y_,
                                   data.begin());
  };
  EXPECT_EQ(run(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  const auto nhwc = CUDNN_TENSOR_NHWC;
  check(cudnnSetTensor4dDescriptor(y_, nhwc, CUDNN_DATA_FLOAT, 2, 5, 6, 6), "y");  // 7 rows
  EXPECT_NE(run(), CUDNN_STATUS_SUCCESS);
  describe(kCases[0]);
  check(cudnnSetTensor4dDescriptor(x_, nhwc, CUDNN_DATA_FLOAT, 2, 3, 7, 6), "x");  // 4 channels
  EXPECT_NE(run(), CUDNN_STATUS_SUCCESS);
  describe(kCases[0]);
  check(cudnnSetConvolutionGroupCount(convolution_, 2), "groups");  // 5 filters
  EXPECT_NE(run(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnSetTensor4dDescriptor(x_, nhwc, CUDNN_DATA_FLOAT, 0, 3, 7, 6),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetFilter4dDescriptor(w_, CUDNN_DATA_FLOAT, nhwc, 1, -1, 3, 3),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetConvolution2dDescriptor(convolution_, 0, 0, 0, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                            CUDNN_DATA_FLOAT),
            CUDNN_STATUS_BAD_PARAM);
}

}  // namespace
}  // namespace omni
