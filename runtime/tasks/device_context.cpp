#include "runtime/tasks/device_context.hpp"

#include <cblas.h>
#include <fmt/format.h>
#include <omp.h>

#include <sys/resource.h>

#include <new>
#include <vector>

#include "runtime/memory/memory_limits.hpp"

// No header declares these functions of OpenBLAS. Buffers that are freed stay mapped for later
// calls.
extern "C" void* blas_memory_alloc(int);
extern "C" void blas_memory_free(void*);

namespace omni {
namespace {
constexpr std::align_val_t kAlignment{64};
constexpr std::size_t kMebibyte = 1 << 20;
constexpr std::size_t kUnlimited = std::size_t{1} << 42;
constexpr std::size_t kMostOfBuffer = 256 << 20;                     // twice what OpenBLAS takes
constexpr std::size_t kStart = 32 << 20, kStartPerThread = 8 << 20;  // bytes that StarPU allocates
}  // namespace

DeviceContext& DeviceContext::current() {
  thread_local DeviceContext context;
  return context;
}

DeviceContext::DeviceContext() {
  openblas_set_num_threads(1);
  omp_set_num_threads(1);  // for the calling thread; oneDNN asks OpenMP for this number
}

float* DeviceContext::Floats::at_least(std::size_t count) {
  if (count > count_) {
    data_.reset();  // first, so that the old and the new buffer never exist together
    count_ = 0;
    data_.reset(static_cast<float*>(::operator new(count * sizeof(float), kAlignment)));
    count_ = count;
  }
  return data_.get();
}

void DeviceContext::Floats::AlignedDelete::operator()(float* pointer) const {
  ::operator delete(pointer, kAlignment);
}

Status reserve_address_space(int threads) {
  if (can_map(kUnlimited)) return {};
  const auto refuse = [&](std::size_t needed, std::string_view what) {
    return Error{ErrorKind::out_of_memory, "",
                 fmt::format("{} threads need {} MiB more of address space for {}, there are {}",
                             threads, needed >> 20, what, mappable_memory() >> 20),
                 "raise ulimit -v, or use fewer --workers"};
  };
  // OpenBLAS's own threads, which have no work in this program, may map buffers at this moment as
  // well.
  const std::size_t all = threads + openblas_get_num_threads() - 1;
  std::vector<void*> taken;
  for (std::size_t each = kMostOfBuffer; taken.size() < all && can_map(each);) {
    const std::size_t before = mappable_memory();
    taken.push_back(blas_memory_alloc(0));
    each = std::min(each, before - mappable_memory() + kMebibyte);
  }
  for (void* buffer : taken) blas_memory_free(buffer);
  if (taken.size() < all) return refuse((all - taken.size()) * kMostOfBuffer, "matrix products");
  rlimit stack{};
  getrlimit(RLIMIT_STACK, &stack);
  if (stack.rlim_cur == RLIM_INFINITY) stack.rlim_cur = 2 * kMebibyte;  // glibc's choice then
  const std::size_t needed = kStart + threads * (stack.rlim_cur + kStartPerThread);
  return can_map(needed) ? Status() : refuse(needed, "stacks and tasks");
}

}  // namespace omni
