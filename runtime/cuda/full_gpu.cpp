#include "runtime/cuda/full_gpu.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <starpu.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/gpu_tensors.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {
namespace {

// Returns the free bytes of the current device; 0 if CUDA does not tell.
std::size_t free_memory() {
  std::size_t free = 0, all = 0;
  if (cudaMemGetInfo(&free, &all) != cudaSuccess) cudaGetLastError();
  return free;
}

constexpr int kPatience = 20;  // s
using Clock = std::chrono::steady_clock;

void (*end_run)(const Error&) = nullptr;
decltype(starpu_data_interface_ops::allocate_data_on_node) allocate_vector = nullptr;

// Returns whether a task computes anywhere, or whether this GPU still works. Also returns true if
// there is no task: then StarPU only tries to send a tensor in advance, and nobody waits.
bool is_computing(const Computing::Count& count) {
  if (count.begun != count.ended || starpu_task_nsubmitted() == 0) return true;
  const bool waits = cudaStreamQuery(starpu_cuda_get_local_stream()) == cudaErrorNotReady;
  if (waits) cudaGetLastError();  // clears the answer, which is no error
  return waits;
}

void end_for(const starpu_vector_interface& tensor, unsigned node) {
  const starpu_ssize_t limit = starpu_memory_get_available(node);
  const std::size_t free = free_memory();
  const OutOfGpuMemory problem("a tensor", starpu_memory_node_get_devid(node),
                               GpuTensors::allocated_for(tensor.nx * tensor.elemsize),
                               limit < 0 ? free : std::min(free, static_cast<std::size_t>(limit)));
  const Status first = task_status();
  end_run(first ? Error{ErrorKind::out_of_memory, "StarPU",
                        fmt::format("{}; it tried for {} s", problem.what(), kPatience),
                        hint_for_full_gpu()}
                : first.error());
}

// Notes that StarPU has failed to allocate a tensor. A call adds at most one second, so time in
// which the process was stopped does not count.
void failed_to_allocate(const starpu_vector_interface& tensor, unsigned node) {
  thread_local Computing::Count then;
  thread_local int seconds = 0;
  thread_local Clock::time_point counted;
  const Computing::Count count = Computing::count();
  if (count != then || seconds == 0) {
    then = count;
    seconds = 1;
    counted = Clock::now();
  }
  if (Clock::now() - counted < std::chrono::seconds(1)) return;
  counted = Clock::now();
  if (is_computing(count)) {
    seconds = 0;
  } else if (++seconds > kPatience) {
    end_for(tensor, node);
  }
}

starpu_ssize_t allocate_watched(void* tensor, unsigned node) {
  const starpu_ssize_t taken = allocate_vector(tensor, node);
  const int worker = starpu_worker_get_id();
  if (taken == -ENOMEM && starpu_node_get_kind(node) == STARPU_CUDA_RAM && worker >= 0 &&
      starpu_worker_get_type(worker) == STARPU_CUDA_WORKER)
    failed_to_allocate(*static_cast<const starpu_vector_interface*>(tensor), node);
  return taken;
}

}  // namespace

void throw_out_of_gpu_memory(const char* what, std::size_t asked) {
  int gpu = 0;
  if (cudaGetDevice(&gpu) != cudaSuccess) cudaGetLastError();
  throw OutOfGpuMemory(what, gpu, asked, free_memory());
}

void end_when_gpu_stays_full(void (*end)(const Error&)) {
  end_run = end;
  Computing::is_counted = true;
  if (allocate_vector != nullptr) return;
  allocate_vector = starpu_interface_vector_ops.allocate_data_on_node;
  starpu_interface_vector_ops.allocate_data_on_node = allocate_watched;
}

}  // namespace omni
