#include "codelets/dense/peaks.hpp"

#include <algorithm>
#include <cstdint>

#include "codelets/cuda/matmul.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/timed_event.hpp"
#include "runtime/rng.hpp"

namespace omni {
namespace {

// A product of matrices with this side is large enough to use the whole GPU, and takes little time.
constexpr int kSide = 4096, kRepeats = 5;
constexpr double kWarmUp = 200, kRepeat = 4, kLongest = 1000;  // ms

// Returns random bits that are numbers in [0.5, 1) whether they are read as floats or as bf16. A
// GPU that multiplies equal numbers takes less power, and may run at a higher clock.
std::vector<std::uint32_t> random_numbers() {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(std::size_t{kSide} * kSide);
  const Philox random(1, RandomStream::synthetic);
  while (numbers.size() < std::size_t{kSide} * kSide)
    for (const std::uint32_t bits : random(0, numbers.size()))
      numbers.push_back(0x3f003f00 | (bits & 0x007f007f));
  return numbers;
}

struct DeviceMatrix {
  float* data = nullptr;
  explicit DeviceMatrix(const std::vector<std::uint32_t>& numbers) {
    const std::size_t bytes = numbers.size() * sizeof numbers[0];
    check(cudaMalloc(reinterpret_cast<void**>(&data), bytes), "measuring the peak", bytes);
    check(cudaMemcpy(data, numbers.data(), bytes, cudaMemcpyHostToDevice), "filling a matrix");
  }
  // The copy to this matrix may still be under way if allocating another matrix has failed. So the
  // destructor waits.
  ~DeviceMatrix() {
    cudaDeviceSynchronize();
    cudaFree(data);
  }
};

struct Blas {
  cublasHandle_t handle = nullptr;
  Blas() { check(cublasCreate(&handle), "starting cuBLAS"); }
  ~Blas() { cublasDestroy(handle); }
};

double gemm_rate(int device, Precision precision) {
  check(cudaSetDevice(device), "choosing a GPU");
  const Blas blas;
  // Products in bf16 get factors in bf16 (codelets/cuda/rounded_factors.hpp).
  const bool in_bf16 = precision == Precision::bf16;
  const cudaDataType type = in_bf16 ? CUDA_R_16BF : CUDA_R_32F;
  const cublasComputeType_t compute = gpu::compute_type(type, precision);
  const std::vector<std::uint32_t> numbers = random_numbers();
  const DeviceMatrix a(numbers), b(numbers), product(numbers);
  const TimedEvent before, after;
  constexpr float kOne = 1, kZero = 0;
  const auto milliseconds = [&](int products) {
    before.record(nullptr);
    for (int i = 0; i < products; ++i)
      check(cublasGemmEx(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, kSide, kSide, kSide, &kOne, a.data,
                         type, kSide, b.data, type, kSide, &kZero, product.data, CUDA_R_32F, kSide,
                         compute, CUBLAS_GEMM_DEFAULT),
            "multiplying matrices");
    after.record(nullptr);
    return static_cast<double>(after.milliseconds_since(before));
  };
  // A GPU that was idle is slow at first, so products run until it is fast.
  double one = 0, spent = 0;
  for (double warm = 0; warm < kWarmUp; warm += std::max(0.01, one)) one = milliseconds(1);
  const int products = std::clamp(static_cast<int>(kRepeat / one), 1, 100);
  double fastest = spent = one;
  for (int i = 0; i < kRepeats && spent < kLongest; ++i) {
    const double passed = milliseconds(products);
    spent += passed;
    fastest = std::min(fastest, passed / products);
  }
  return 2.0 * kSide * kSide * kSide / (1e-3 * fastest);
}

}  // namespace

double measure_gpu_gemm(const std::vector<int>& devices, Precision precision) {
  double together = 0;
  for (const int device : devices) together += gemm_rate(device, precision);
  return together;
}

}  // namespace omni
