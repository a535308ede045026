// Activations of one layer over a mini-batch that is cut into slices: one tensor per slice, so that
// a slice can run ahead through the net without waiting for the others.
#pragma once

#include <vector>

#include "runtime/extent.hpp"
#include "runtime/tasks/slices.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

struct Blob {
  Extent extent;
  std::vector<Tensor*> value, diff;  // by slice; diff is empty where no gradient is wanted
};

// A layer's view of what it reads. `diff` is where this consumer writes its share of the gradient:
// the blob's own tensors, or, when a blob has several consumers, private ones that the net adds up.
struct Input {
  Blob* blob = nullptr;
  std::vector<Tensor*> diff;
  bool adds = false;  // adds to `diff`, which a later consumer wrote; see Layer::adds_gradients()

  const Extent& extent() const { return blob->extent; }
  const Tensor& value(int slice) const { return *blob->value[static_cast<std::size_t>(slice)]; }
  bool wants_gradient() const { return !diff.empty(); }
  // True for the consumer that writes the blob's own gradient first.
  bool writes_gradient() const { return wants_gradient() && diff == blob->diff && !adds; }
  const Tensor& gradient(int slice) const { return *diff[static_cast<std::size_t>(slice)]; }
};

}  // namespace omni
