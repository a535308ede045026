#include "codelets/dense/peaks.hpp"

#include <algorithm>
#include <vector>

#include "codelets/cuda/gemm.cuh"
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/timed_event.hpp"

namespace omni {
namespace {

// Large enough to fill the device, and not to take long.
constexpr int kSide = 4096, kProducts = 20, kRepeats = 5;
constexpr double kWarmUp = 200;  // ms

struct DeviceMatrix {
  float* data = nullptr;
  DeviceMatrix() {
    constexpr std::size_t kBytes = sizeof(float) * kSide * kSide;
    check(cudaMalloc(reinterpret_cast<void**>(&data), kBytes), "allocating a matrix");
    check(cudaMemset(data, 0x3f, kBytes), "filling a matrix");  // zeros would flatter it
  }
  ~DeviceMatrix() { cudaFree(data); }
};

struct Blas {
  cublasHandle_t handle = nullptr;
  Blas() { check(cublasCreate(&handle), "starting cuBLAS"); }
  ~Blas() { cublasDestroy(handle); }
};

double gemm_rate(int device, Precision precision) {
  check(cudaSetDevice(device), "choosing a GPU");
  const Blas blas;
  // What cuBLAS makes of floats in bf16 may be tf32: the peak is that of bf16 itself.
  const bool in_bf16 = precision == Precision::bf16;
  const cudaDataType type = in_bf16 ? CUDA_R_16BF : CUDA_R_32F;
  const cublasComputeType_t compute = in_bf16 ? CUBLAS_COMPUTE_32F : gpu::compute_type(precision);
  const DeviceMatrix a, b, product;
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
  // A device that was idle is slow at first.
  for (double warm = 0; warm < kWarmUp;) warm += std::max(1.0, milliseconds(kProducts));
  double fastest = milliseconds(kProducts);
  for (int i = 1; i < kRepeats; ++i) fastest = std::min(fastest, milliseconds(kProducts));
  return 2.0 * kSide * kSide * kSide * kProducts / (1e-3 * fastest);
}

}  // namespace

double measure_gpu_gemm(const std::vector<int>& devices, Precision precision) {
  double together = 0;
  for (const int device : devices) together += gemm_rate(device, precision);
  return together;
}

}  // namespace omni
