// Matrix products by oneDNN's matmul, of numbers rounded as ImplementationPolicy::precision says.
#pragma once

#ifdef OMNI_ONEDNN

#include <compare>

#include "codelets/dense/onednn_support.hpp"

namespace omni::onednn {

// From value to value in floats; one of them is 1.
struct Strides {
  int row, column;
  auto operator<=>(const Strides&) const = default;
};

// product (m x n) = or, where its rows are whole, += a (m x k) * b (k x n)
struct ProductArgs {
  int m, n, k;
  Strides a, b, product;
  bool adds = false;

  auto operator<=>(const ProductArgs&) const = default;
};

class ProductPlan {
 public:
  ProductPlan(const dnnl::engine& engine, const ProductArgs& args);
  std::size_t scratch_floats() const { return layout_.floats(); }
  dnnl::memory bring_b(const Engine& worker, const float* b, float* scratch) const;
  void run(const Engine& worker, const float* a, const dnnl::memory& b, float* product,
           float* scratch) const;

 private:
  ScratchLayout layout_;
  dnnl::matmul matmul_;
  Factor a_, b_;
  dnnl::memory::desc scratchpad_, product_, turned_;
  dnnl::reorder turn_;
  std::size_t scratchpad_at_ = 0, turned_at_ = 0;
  bool turns_ = false;
};

// Products that share their second factor, which is brought into oneDNN's type once. Uses the
// context's scratch buffer as long as it lives.
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

}  // namespace omni::onednn

#endif
