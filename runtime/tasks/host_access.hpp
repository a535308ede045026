// A HostAccess gives a thread that runs no task access to the values of a tensor.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

// The constructor waits for the tasks that use the tensor; for Mode::read, only for those that
// write it. Until the destructor, later such tasks wait. No task may construct a HostAccess.
class HostAccess {
 public:
  enum class Mode { read, write };
  HostAccess(const Tensor& tensor, Mode mode);
  ~HostAccess();
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;

  std::span<float> f32() const { return view<float>(DataType::f32); }
  std::span<Bf16> bf16() const { return view<Bf16>(DataType::bf16); }
  std::span<std::int32_t> i32() const { return view<std::int32_t>(DataType::i32); }
  std::vector<float> values() const;  // a copy; for tensors of f32 or bf16

 private:
  template <class T>
  std::span<T> view([[maybe_unused]] DataType expected) const {
    assert(tensor_.type() == expected);
    return {static_cast<T*>(memory_), tensor_.count()};
  }
  const Tensor& tensor_;
  Mode mode_;
  void* memory_;
};

}  // namespace omni
