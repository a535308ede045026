// These tests check what only the played device promises. Mistakes after which a real device might
// go on end the program with a reason. The device also breaks when it is told to.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/launch.cuh"
#include "tests/played_gpu/tests/device_array.hpp"

namespace omni {
namespace {

using test::DeviceArray;
using test::Stop;
using test::TestStream;

__global__ void set_kernel(float* dst, int at) { dst[at] = 1; }

void set(const DeviceArray& data, int at) {
  launch(set_kernel, dim3(1), dim3(1), 0, nullptr, data.begin(), at);
  cudaDeviceSynchronize();
}

// Every test of a program's end starts the program anew, because the device's threads do not
// survive a fork.
class Played : public testing::Test {
 protected:
  Played() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};
using PlayedDeath = Played;

// In a build with address sanitizer, the sanitizer reports a wrong access first, in its own words.
#ifdef __SANITIZE_ADDRESS__
#define OMNI_SEEN(text) "use-after-poison"
#else
#define OMNI_SEEN(text) text
#endif

TEST_F(PlayedDeath, writing_around_memory_is_seen_when_it_is_freed) {
  EXPECT_DEATH(
      {
        DeviceArray data(10);
        set(data, 10);
      },
      OMNI_SEEN("written 0 bytes behind the end of 40"));
  EXPECT_DEATH(
      {
        DeviceArray data(10);
        set(data, 70);
      },
      OMNI_SEEN("written 240 bytes behind the end of 40"));
  EXPECT_DEATH(
      {
        DeviceArray data(10);
        set(data, -1);
      },
      OMNI_SEEN("written 4 bytes before the begin of 40"));
}

TEST_F(PlayedDeath, writing_to_freed_memory_is_seen_when_the_place_is_used_again) {
  EXPECT_DEATH(
      {
        TestStream stream;
        auto* data = new DeviceArray(10);
        DeviceArray other(
            10);  // so that the freed memory lies within an allocation's neighbourhood
        const float* begin = other.begin() - 64 - 64;
        delete data;
        launch(set_kernel, dim3(1), dim3(1), 0, stream, other.begin(),
               static_cast<int>(begin - other.begin()));
        cudaStreamSynchronize(stream);
        DeviceArray again(10);
      },
      OMNI_SEEN("written after it had been freed"));
}

TEST_F(Played, fresh_and_freed_memory_is_not_a_number) {
  TestStream stream;
  for (const float value : DeviceArray(100).values(stream)) EXPECT_TRUE(std::isnan(value));
}

__global__ void early_kernel(int* dst) {
  if (threadIdx.x == 3) return;
  __syncthreads();
  dst[0] = 1;
}

__global__ void divergent_kernel(float* dst) {
  dst[0] = 1;
  if (threadIdx.x < 16) dst[0] = __shfl_xor_sync(0xFFFFFFFF, dst[0], 1);
}

__global__ void stranger_kernel(float* dst) { dst[0] = __shfl_sync(0x1, dst[0], 0); }

TEST_F(PlayedDeath, threads_that_wait_for_ever_are_told) {
  EXPECT_DEATH(
      {
        DeviceArray data(1);
        launch(early_kernel, dim3(1), dim3(64), 0, nullptr, reinterpret_cast<int*>(data.begin()));
        cudaDeviceSynchronize();
      },
      "of the 64 threads of block .0, 0, 0., 1 have ended, 63 wait at __syncthreads");
  EXPECT_DEATH(
      {
        DeviceArray data(1);
        launch(divergent_kernel, dim3(1), dim3(32), 0, nullptr, data.begin());
        cudaDeviceSynchronize();
      },
      "16 have ended, 0 wait at __syncthreads.. and 16 in a warp");
  EXPECT_DEATH(
      {
        DeviceArray data(1);
        launch(stranger_kernel, dim3(1), dim3(2), 0, nullptr, data.begin());
        cudaDeviceSynchronize();
      },
      "a shuffle with mask 0x1 is called by lane 1");
}

TEST_F(PlayedDeath, a_stream_that_was_destroyed_is_not_used) {
  EXPECT_DEATH(
      {
        cudaStream_t stream = nullptr;
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        cudaStreamDestroy(stream);
        cudaStreamSynchronize(stream);
      },
      "a stream is used that is not there, or no longer");
}

__global__ void last_warp_kernel(float* dst) {
  dst[threadIdx.x] = __shfl_down_sync(0xFFFFFFFF, 1.0f, 4);
}

TEST_F(Played, lanes_that_do_not_exist_give_no_number) {
  TestStream stream;
  const DeviceArray data(8);
  launch(last_warp_kernel, dim3(1), dim3(8), 0, stream, data.begin());
  const auto values = data.values(stream);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(values[i]), i >= 4) << i;
}

TEST_F(Played, factors_are_rounded_where_that_is_allowed) {
  TestStream stream;
  const float one = 1, zero = 0;
  const float fine = 1 + 1.0f / 4096, coarse = 1 + 1.0f / 1024, coarsest = 1 + 1.0f / 128;
  const float nearly_coarsest = 1 + 1.5f / 256;
  const DeviceArray factors(std::vector<float>{fine, coarse, coarsest, nearly_coarsest}),
      product(1);
  cublasHandle_t blas;
  check(cublasCreate(&blas), "cuBLAS");
  check(cublasSetStream(blas, stream), "cuBLAS");
  const auto square = [&](int at, cublasComputeType_t compute) {
    const float* factor = factors.begin() + at;
    check(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, factor, CUDA_R_32F, 1, factor,
                       CUDA_R_32F, 1, &zero, product.begin(), CUDA_R_32F, 1, compute,
                       CUBLAS_GEMM_DEFAULT),
          "a product");
    return product.values(stream)[0];
  };
  EXPECT_EQ(square(0, CUBLAS_COMPUTE_32F), fine * fine);
  EXPECT_EQ(square(0, CUBLAS_COMPUTE_32F_FAST_TF32), 1);
  EXPECT_EQ(square(1, CUBLAS_COMPUTE_32F_FAST_TF32), coarse * coarse);
  EXPECT_EQ(square(1, CUBLAS_COMPUTE_32F_FAST_16BF), 1);
  EXPECT_EQ(square(2, CUBLAS_COMPUTE_32F_FAST_16BF), coarsest * coarsest);
  EXPECT_EQ(square(3, CUBLAS_COMPUTE_32F_FAST_16BF), 1) << "cut off, not rounded";
  cublasDestroy(blas);
}

// The statement runs in a process of its own, because the device stays broken.
#define EXPECT_ENDS(statement, text)                    \
  EXPECT_EXIT(                                          \
      {                                                 \
        statement;                                      \
        std::exit(testing::Test::HasFailure() ? 1 : 0); \
      },                                                \
      testing::ExitedWithCode(0), text)

TEST_F(PlayedDeath, host_memory_in_a_kernel_breaks_the_device) {
  EXPECT_ENDS(
      {
        float host = 0;
        launch(set_kernel, dim3(1), dim3(1), 0, nullptr, &host, 0);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
        EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
        EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);  // for ever
        void* memory = nullptr;
        EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorIllegalAddress);
        EXPECT_THROW(launch(set_kernel, dim3(1), dim3(1), 0, nullptr, &host, 0), CudaError);
      },
      "neither allocated device memory nor pinned");
}

TEST_F(PlayedDeath, memory_that_is_freed_too_early_breaks_the_device) {
  EXPECT_ENDS(
      {
        TestStream stream;
        Stop stop(stream);
        {
          DeviceArray data(1);
          launch(set_kernel, dim3(1), dim3(1), 0, stream, data.begin(), 0);
        }
        stop.end();
        EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
      },
      "neither allocated device memory nor pinned");
  EXPECT_ENDS(
      {
        TestStream stream;
        test::Pinned host(1);
        Stop stop(stream);
        {
          DeviceArray data(1);
          cudaMemcpyAsync(data.begin(), host.begin(), 4, cudaMemcpyHostToDevice, stream);
        }
        stop.end();
        EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
      },
      "copy of memory that was freed before");
}

TEST_F(PlayedDeath, a_device_dies_when_it_is_told_to) {
  setenv("OMNI_PLAYED_GPU_DIES_AFTER", "2", 1);
  EXPECT_ENDS(
      {
        DeviceArray data(4);
        set(data, 0);
        set(data, 1);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        launch(set_kernel, dim3(1), dim3(1), 0, nullptr, data.begin(), 2);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
        cublasHandle_t blas;
        const float one = 1;
        EXPECT_EQ(cublasCreate(&blas), CUBLAS_STATUS_SUCCESS);
        EXPECT_EQ(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, data.begin(), 1,
                              data.begin(), 1, &one, data.begin(), 1),
                  CUBLAS_STATUS_EXECUTION_FAILED);
      },
      "played GPU 0: cudaErrorIllegalAddress: dies, as OMNI_PLAYED_GPU_DIES_AFTER says");
  unsetenv("OMNI_PLAYED_GPU_DIES_AFTER");
}

TEST_F(PlayedDeath, the_environment_says_how_many_devices_of_how_much_memory) {
  setenv("OMNI_PLAYED_GPUS", "3", 1);
  setenv("OMNI_PLAYED_GPU_MEMORY", "2", 1);
  EXPECT_ENDS(
      {
        int count = 0;
        EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
        EXPECT_EQ(count, 3);
        EXPECT_EQ(cudaSetDevice(2), cudaSuccess);
        EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
        void* memory = nullptr;
        EXPECT_EQ(cudaMalloc(&memory, 1 << 20), cudaSuccess);
        EXPECT_EQ(cudaMalloc(&memory, 2 << 20), cudaErrorMemoryAllocation);
        EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
        EXPECT_EQ(cudaMalloc(&memory, 2 << 20), cudaSuccess);
        EXPECT_EQ(cudaFree(memory), cudaSuccess);
      },
      "");
  setenv("OMNI_PLAYED_GPUS", "0", 1);
  EXPECT_ENDS(
      {
        int count = 1;
        EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
        EXPECT_EQ(count, 0);
      },
      "");
  setenv("OMNI_PLAYED_GPUS", "many", 1);
  EXPECT_DEATH(
      {
        int count = 0;
        cudaGetDeviceCount(&count);
      },
      "OMNI_PLAYED_GPUS='many' is no number from 0 to 8");
  unsetenv("OMNI_PLAYED_GPUS");
  unsetenv("OMNI_PLAYED_GPU_MEMORY");
}

}  // namespace
}  // namespace omni
