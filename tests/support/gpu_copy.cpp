#include "tests/support/gpu_copy.hpp"

#ifdef OMNI_CUDA

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/cuda_error.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/session.hpp"

namespace omni::gpu {
namespace {

// When StarPU first starts with a new STARPU_HOME, it measures the buses and then resets the
// devices. A reset would destroy the memory of a CudaWorker outside StarPU, so StarPU starts first.
void let_starpu_measure() {
  static const bool measured = [] {
    const ImplementationPolicy policy = implementation_policy();  // a session sets its own
    SessionOptions options;
    options.cpu_workers = 1;
    const bool started = hold_starpu() != nullptr || Session::start(options);
    set_implementation_policy(policy);
    return started;
  }();
  if (!measured) throw CudaError("StarPU does not start");
}

}  // namespace

bool present() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return devices > 0;
}

Copy::Copy(std::span<std::byte> host) : host_(host) {
  let_starpu_measure();
  void* memory = nullptr;
  check(cudaMalloc(&memory, host.size()), "allocating a test's operand");
  data_ = static_cast<std::byte*>(memory);
  check(cudaMemcpy(data_, host.data(), host.size(), cudaMemcpyHostToDevice), "copying an operand");
}

Copy::~Copy() { cudaFree(data_); }

void Copy::back() {
  check(cudaDeviceSynchronize(), "running a kernel");
  check(cudaMemcpy(host_.data(), data_, host_.size(), cudaMemcpyDeviceToHost), "copying a result");
}

}  // namespace omni::gpu

#else

namespace omni::gpu {

bool present() { return false; }
Copy::Copy(std::span<std::byte> host) : host_(host) {}
Copy::~Copy() = default;
void Copy::back() {}

}  // namespace omni::gpu

#endif
