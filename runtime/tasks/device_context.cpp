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

float* DeviceContext::Floats::at_least(std::size_t count) {
  if (count > count_) {
    data_.reset();  // before the new one: never both
    count_ = 0;
    data_.reset(static_cast<float*>(::operator new(count * sizeof(float), kAlignment)));
    count_ = count;
  }
  return data_.get();
}

void DeviceContext::Floats::AlignedDelete::operator()(float* pointer) const {
  ::operator delete(pointer, kAlignment);
}

}  // namespace omni
