// What one worker thread owns: scratch memory that lives as long as the worker, and caches of
// libraries (oneDNN engine and primitives). Made on first use in a thread; pins BLAS and oneDNN to
// that one thread, because a StarPU worker is one core.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <typeindex>
#include <unordered_map>

#include "runtime/result.hpp"

namespace omni {

// Objects of any types with one owner, which need not know the types.
class Locals {
 public:
  // The one of type T, default-constructed on first use.
  template <class T>
  T& get() {
    auto& slot = objects_[std::type_index(typeid(T))];
    if (!slot) slot = std::make_shared<T>();
    return *static_cast<T*>(slot.get());
  }

 private:
  std::unordered_map<std::type_index, std::shared_ptr<void>> objects_;
};

// Memory that a context keeps for its kernels, in bytes.
struct WorkingFloats {
  std::size_t scratch = 0;      // of its one buffer
  std::size_t kept_beside = 0;  // in a local() of its own; only one type of kernel has that
  std::size_t copies = 0;       // of tensors in bf16
  // On a GPU: the same, and a copy of the largest tensor to which a task adds, on which a library
  // may try algorithms.
  std::size_t copies_on_gpu = 0, sum_on_gpu = 0;

  void grow(const WorkingFloats& other) {
    scratch = std::max(scratch, other.scratch);
    kept_beside = std::max(kept_beside, other.kept_beside);
    copies = std::max(copies, other.copies);
    copies_on_gpu = std::max(copies_on_gpu, other.copies_on_gpu);
    sum_on_gpu = std::max(sum_on_gpu, other.sum_on_gpu);
  }
};

class DeviceContext {
 public:
  static DeviceContext& current();  // of the calling thread

  // At least `count` floats, 64-byte aligned, contents undefined. One buffer per context: a kernel
  // that needs several pieces asks once and divides. Throws std::bad_alloc.
  float* scratch(std::size_t count) { return scratch_.at_least(count); }
  std::size_t scratch_floats() const { return scratch_.count(); }  // so far
  // Memory for copies of bf16 tensors as floats; it stays as scratch() does.
  float* copies(std::size_t count) { return copies_.at_least(count); }

  // The context's own object of type T, default-constructed on first use.
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

// Call before so many threads compute with limited address space: OpenBLAS maps a buffer for each
// thread at its first product, and retries for ever if it cannot.
Status reserve_address_space(int threads);

}  // namespace omni
