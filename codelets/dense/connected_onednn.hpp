// These functions compute the products of connected layers by oneDNN: outputs and both gradients,
// without bias. Factors are rounded as ImplementationPolicy::precision says.
#pragma once

#ifdef OMNI_ONEDNN

#include <compare>

#include "codelets/dense/connected.hpp"
#include "codelets/dense/onednn_support.hpp"

namespace omni::onednn {

// Strides are the distances in floats from a row to the next row, and from a column to the next
// column. One of the two is 1.
struct Strides {
  int row, column;
  auto operator<=>(const Strides&) const = default;
};

// ProductArgs are the arguments of product (m x n) = a (m x k) * b (k x n). With `adds`, the values
// are added to the product; product.column must then be 1.
struct ProductArgs {
  int m, n, k;
  Strides a, b, product;
  bool adds = false;

  auto operator<=>(const ProductArgs&) const = default;
};

class ProductPlan;

// A Multiplier computes products with the same second factor, which is converted to oneDNN's type
// once. While the object exists it uses the context's scratch memory.
class Multiplier {
 public:
  Multiplier(const ProductArgs& args, const float* b, DeviceContext& context);
  void operator()(const float* a, float* product) const;

 private:
  const Engine& worker_;
  const ProductPlan& plan_;
  float* scratch_;
  dnnl::memory b_;
};

// Returns how many floats of scratch memory a pass needs at most, without oneDNN's scratchpad.
std::size_t connected_floats(const ConnectedShape& shape);

void connected_forward(const ConnectedShape& shape, const float* src, const float* weights,
                       float* dst, DeviceContext& context);
void connected_backward_data(const ConnectedShape& shape, const float* diff_dst,
                             const float* weights, float* diff_src, DeviceContext& context);
// Makes a multiplier for `rows` neurons. A call multiplier(their first diff_dst, diff_weights) adds
// to the gradient of their weights.
Multiplier connected_weights_gradient(const ConnectedShape& shape, int rows, const float* src,
                                      DeviceContext& context);

}  // namespace omni::onednn

#endif
