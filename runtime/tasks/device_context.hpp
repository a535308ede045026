// A DeviceContext owns what one thread needs to compute: scratch memory, and objects of libraries
// (oneDNN's engine and primitives). It is made when a thread first uses it, and lives as long as
// the thread. It lets BLAS and oneDNN use only that thread, because a StarPU worker is one core.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <typeindex>
#include <unordered_map>

#include "runtime/result.hpp"

namespace omni {

// A Locals object owns at most one object of each type. It need not know the types.
class Locals {
 public:
  // Returns the object of type T; the first call constructs it.
  template <class T>
  T& get() {
    auto& slot = objects_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }

 private:
  std::unordered_map<std::type_index, std::shared_ptr<void>> objects_;
};

// WorkingFloats says how much memory kernels need beside their buffers, in floats.
struct WorkingFloats {
  std::size_t scratch = 0;      // in the context's scratch()
  std::size_t kept_beside = 0;  // in an object of local(); only one kind of kernel has that
  std::size_t copies = 0;       // for copies of bf16 tensors, in the context's copies()
  // On a GPU, copies of bf16 tensors take copies_on_gpu, and copies in bf16 of factors that hold
  // floats take factors_on_gpu. sum_on_gpu is for a copy of the largest tensor to which a task
  // adds; a library tries algorithms on that copy.
  std::size_t copies_on_gpu = 0, factors_on_gpu = 0, sum_on_gpu = 0;

  void grow(const WorkingFloats& other) {
    scratch = std::max(scratch, other.scratch);
    kept_beside = std::max(kept_beside, other.kept_beside);
    copies = std::max(copies, other.copies);
    copies_on_gpu = std::max(copies_on_gpu, other.copies_on_gpu);
    factors_on_gpu = std::max(factors_on_gpu, other.factors_on_gpu);
    sum_on_gpu = std::max(sum_on_gpu, other.sum_on_gpu);
  }
};

class DeviceContext {
 public:
  static DeviceContext& current();  // of the calling thread

  // Returns at least `count` floats with undefined contents, aligned to 64 bytes. A context has one
  // such buffer: a kernel that needs several pieces asks once and divides it. Throws
  // std::bad_alloc.
  float* scratch(std::size_t count) { return scratch_.at_least(count); }
  std::size_t scratch_floats() const { return scratch_.count(); }  // the buffer's size now
  // Returns a second buffer of that kind, for copies of bf16 tensors as floats.
  float* copies(std::size_t count) { return copies_.at_least(count); }

  // Returns the context's object of type T; the first call constructs it.
  template <class T>
  T& local() {
    return locals_.get<T>();
  }

  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

 private:
  DeviceContext();
  class Floats {
   public:
    float* at_least(std::size_t count);
    std::size_t count() const { return count_; }

   private:
    struct AlignedDelete {
      void operator()(float* pointer) const;
    };
    std::unique_ptr<float[], AlignedDelete> data_;
    std::size_t count_ = 0;
  };
  Floats scratch_, copies_;
  Locals locals_;
};

// If address space is limited, lets OpenBLAS map its buffers for `threads` threads now, or fails.
// By itself OpenBLAS maps a buffer at a thread's first product, and retries for ever if it cannot.
Status reserve_address_space(int threads);

}  // namespace omni
