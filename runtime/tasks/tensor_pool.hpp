// A TensorPool owns a net's tensors. Their addresses are stable; their size is known before
// allocation.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/result.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

// A TensorSize is the memory that Tensor::allocate() takes for a tensor that is not cut, or for one
// part.
struct TensorSize {
  std::size_t bytes = 0;
  bool is_transient = false;
};

class TensorPool {
 public:
  Tensor& declare(std::string name, std::size_t count, DataType type = DataType::f32);
  // Removes a tensor that is not needed, and returns its bytes.
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
