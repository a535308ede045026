// This file plays the functions that return a device's properties and the names of errors.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/played_gpu/device.hpp"

using namespace omni::played;

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  if (index < 0 || index >= static_cast<int>(devices().size()))
    return noted(cudaErrorInvalidDevice);
  return on_device(index, [&](Device& device) {
    cudaDeviceProp answer{};
    const std::string name = fmt::format("played GPU {}", device.index);
    std::copy(name.begin(), name.end(), answer.name);
    answer.totalGlobalMem = device.memory.capacity();
    answer.sharedMemPerBlock = 48 << 10;
    answer.regsPerBlock = 65536;
    answer.warpSize = 32;
    answer.maxThreadsPerBlock = 1024;
    answer.maxThreadsDim[0] = answer.maxThreadsDim[1] = 1024;
    answer.maxThreadsDim[2] = 64;
    answer.maxGridSize[0] = 0x7FFFFFFF;
    answer.maxGridSize[1] = answer.maxGridSize[2] = 65535;
    answer.totalConstMem = 64 << 10;
    answer.major = device.major;
    answer.multiProcessorCount = 6;
    answer.maxThreadsPerMultiProcessor = 2048;
    answer.canMapHostMemory = answer.unifiedAddressing = 1;
    answer.concurrentKernels = answer.asyncEngineCount = 1;
    answer.memoryPoolsSupported = answer.hostRegisterSupported = 1;
    answer.pciBusID = device.index + 1;
    *properties = answer;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          std::size_t) {
  *blocks = 2048 / threads;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, index); error != cudaSuccess)
    return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      return cudaSuccess;
    case cudaDevAttrWarpSize: *value = properties.warpSize; return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      return cudaSuccess;
    case cudaDevAttrComputeMode: *value = cudaComputeModeDefault; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported:
      *value = properties.memoryPoolsSupported;
      return cudaSuccess;
    default:  // one that nobody has asked for yet; add it here
      return noted(cudaErrorNotSupported);
  }
}

#define OMNI_NAMED(error, text)     \
  case error: return { #error, text \
    }

namespace {
struct Said {
  const char *name, *text;
};
Said said(cudaError_t error) {
  switch (error) {
    OMNI_NAMED(cudaSuccess, "no error");
    OMNI_NAMED(cudaErrorInvalidValue, "invalid argument");
    OMNI_NAMED(cudaErrorMemoryAllocation, "out of memory");
    OMNI_NAMED(cudaErrorInvalidConfiguration, "invalid configuration argument");
    OMNI_NAMED(cudaErrorInvalidDeviceFunction, "invalid device function");
    OMNI_NAMED(cudaErrorNoDevice, "no CUDA-capable device is detected");
    OMNI_NAMED(cudaErrorInvalidDevice, "invalid device ordinal");
    OMNI_NAMED(cudaErrorInvalidResourceHandle, "invalid resource handle");
    OMNI_NAMED(cudaErrorNotReady, "device not ready");
    OMNI_NAMED(cudaErrorIllegalAddress, "an illegal memory access was encountered");
    OMNI_NAMED(cudaErrorHostMemoryAlreadyRegistered,
               "part or all of the requested memory range is already mapped");
    OMNI_NAMED(cudaErrorHostMemoryNotRegistered,
               "pointer does not correspond to a registered memory region");
    OMNI_NAMED(cudaErrorNotSupported, "operation not supported");
    default: return {"cudaErrorUnknown", "unknown error"};
  }
}
}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return said(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return said(error).text; }
