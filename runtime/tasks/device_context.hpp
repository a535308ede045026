// What one worker thread owns: scratch memory that lives as long as the worker, and caches of
// libraries (oneDNN engine and primitives). Made on first use in a thread; pins BLAS and oneDNN to
// that one thread, because a StarPU worker is one core.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <typeindex>
#include <unordered_map>

namespace omni {

// What kernels make a context keep.
struct WorkingFloats {
  std::size_t scratch = 0;      // of its one buffer
  std::size_t kept_beside = 0;  // in a local() of its own; only one type of kernel has that

  void grow(const WorkingFloats& other) {
    scratch = std::max(scratch, other.scratch);
    kept_beside = std::max(kept_beside, other.kept_beside);
  }
};

class DeviceContext {
 public:
  static DeviceContext& current();  // of the calling thread

  // At least `count` floats, 64-byte aligned, contents undefined. One buffer per context: a kernel
  // that needs several pieces asks once and divides. Throws std::bad_alloc.
  float* scratch(std::size_t count);
  std::size_t scratch_floats() const { return scratch_count_; }  // so far

  // The context's own object of type T, default-constructed on first use.
  template <class T>
  T& local() {
    auto& slot = locals_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }

  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

 private:
  DeviceContext();
  struct AlignedDelete {
    void operator()(float* pointer) const;
  };
  std::unique_ptr<float[], AlignedDelete> scratch_;
  std::size_t scratch_count_ = 0;
  std::unordered_map<std::type_index, std::shared_ptr<void>> locals_;
};

}  // namespace omni
