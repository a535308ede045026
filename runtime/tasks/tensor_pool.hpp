// A TensorPool owns tensors, for example those of a net. Their addresses are stable; their size is
// known before allocation.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/result.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

// A TensorSize says how much memory Tensor::allocate() takes for one part of a tensor.
struct TensorSize {
  std::size_t bytes = 0;
  bool is_transient = false;
};

class TensorPool {
 public:
  Tensor& declare(std::string name, std::size_t count, DataType type = DataType::f32);
  // Excludes a tensor that is not needed from bytes() and allocate(). Returns the bytes saved.
  std::size_t leave_out(const Tensor& tensor);
  // Calls tensor.place_in(storage); the pool holds both.
  void place(Tensor& tensor, const Tensor& storage);
  Tensor& last() { return tensors_.back(); }
  std::deque<Tensor>& all() { return tensors_; }
  std::size_t count() const { return tensors_.size(); }
  std::size_t bytes() const { return bytes_; }
  std::vector<TensorSize> sizes() const;
  Status allocate();

 private:
  std::deque<Tensor> tensors_;
  std::unordered_set<const Tensor*> left_out_;
  std::size_t bytes_ = 0;
};

}  // namespace omni
