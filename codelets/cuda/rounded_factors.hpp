// With --precision bf16, products multiply factors in bf16. cuBLAS accepts floats for that, but
// then cuts off the lower half of their bits, which makes every product too small. So kernels round
// floats first, to the nearest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/bf16/float_copies.hpp"
#include "runtime/cuda/worker.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni::gpu {

inline bool rounds_factors() { return implementation_policy().precision == Precision::bf16; }

// Calls use(T()), where T is the type in which a product takes floats: float, or Bf16.
void with_factors(auto use) {
  if (rounds_factors())
    use(Bf16());
  else
    use(float());
}

// A Factored is a tensor that is multiplied.
struct Factored {
  const void* values;
  std::int64_t count;
  bool in_bf16 = false;  // false: it holds floats
};

// Returns the tensors in type T, which is float, or Bf16. Floats that T does not take are rounded
// into the worker's memory for factors, which the next call overwrites.
template <class T, std::size_t n>
std::array<const T*, n> as_factors(CudaWorker& worker, const std::array<Factored, n>& tensors) {
  const auto is_rounded = [](const Factored& each) {
    return std::is_same_v<T, Bf16> && !each.in_bf16;
  };
  std::size_t bytes = 0;
  for (const Factored& each : tensors)
    if (is_rounded(each)) bytes += bytes_of_rounded(each.count);
  auto* memory = bytes == 0 ? nullptr : static_cast<std::byte*>(worker.factors(bytes));
  std::array<const T*, n> factors;
  for (std::size_t i = 0; i < n; ++i) {
    factors[i] = static_cast<const T*>(tensors[i].values);
    if (!is_rounded(tensors[i])) continue;
    round(worker, tensors[i].count, static_cast<const float*>(tensors[i].values),
          reinterpret_cast<Bf16*>(memory));
    factors[i] = reinterpret_cast<const T*>(memory);
    memory += bytes_of_rounded(tensors[i].count);
  }
  return factors;
}

// Returns floats in type T, as above.
template <class T>
const T* as_factor(CudaWorker& worker, const float* values, std::int64_t count) {
  return as_factors<T>(worker, std::array{Factored{values, count}})[0];
}

// Returns floats in type T. Rounded floats overwrite `memory`, where a factor of at least as many
// values was rounded before.
template <class T>
const T* as_factor_at(CudaWorker& worker, const T* memory, const float* values,
                      std::int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    return values;
  } else {
    round(worker, count, values, const_cast<Bf16*>(memory));
    return memory;
  }
}

}  // namespace omni::gpu
