#include "runtime/tasks/device_context.hpp"

#include <cblas.h>
#include <omp.h>

#include <new>

namespace omni {
namespace {
constexpr std::align_val_t kAlignment{64};
}

DeviceContext& DeviceContext::current() {
  thread_local DeviceContext context;
  return context;
}

DeviceContext::DeviceContext() {
  openblas_set_num_threads(1);
  omp_set_num_threads(1);  // per thread; oneDNN asks OpenMP how many threads it may use
}

float* DeviceContext::scratch(std::size_t count) {
  if (count > scratch_count_) {
    scratch_.reset();  // before the new one: never both
    scratch_count_ = 0;
    scratch_.reset(static_cast<float*>(::operator new(count * sizeof(float), kAlignment)));
    scratch_count_ = count;
  }
  return scratch_.get();
}

void DeviceContext::AlignedDelete::operator()(float* pointer) const {
  ::operator delete(pointer, kAlignment);
}

}  // namespace omni
