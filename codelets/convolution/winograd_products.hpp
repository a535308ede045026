// The matrix products of Winograd's convolution: one for each position of a transformed tile.
#pragma once

#include <compare>
#include <cstdint>

#include "codelets/dense/gemm.hpp"
#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/device_context.hpp"

namespace omni::winograd {

// In each plane result (m x n) = or += a (m x k) * b (k x n), all without gaps.
struct ProductsArgs {
  int planes, m, n, k;
  std::int64_t a_plane, b_plane, result_plane;  // from plane to plane
  bool a_transposed = false;
  bool adds = false;

  auto operator<=>(const ProductsArgs&) const = default;
};

void multiply(const ProductsArgs& args, Gemm product, const float* a, const float* b, float* result,
              DeviceContext& context);

void multiply(const ProductsArgs& args, Gemm, const Bf16* a, const Bf16* b, float* result,
              DeviceContext& context);

}  // namespace omni::winograd
