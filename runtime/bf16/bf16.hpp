// bfloat16 (bf16) is the upper half of a float's bits: it keeps 7 of the 23 bits of the mantissa.
// Kernels read and write bf16, and compute with floats.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

// Marks functions that also run on a GPU.
#ifdef __CUDACC__
#define OMNI_HD __host__ __device__
#else
#define OMNI_HD
#endif

namespace omni {

struct Bf16 {
  Bf16() = default;
  // Rounds to the nearest, ties to even. NaN stays NaN.
  OMNI_HD Bf16(float value) {
#ifdef __CUDA_ARCH__  // one instruction; the six below would take longer than the memory access
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = all + 0x7FFFu + (all >> 16 & 1u), quiet = all | 0x00400000u;
    bits = static_cast<std::uint16_t>((value == value ? rounded : quiet) >> 16);
#endif
  }
  OMNI_HD operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

  std::uint16_t bits;
};
static_assert(sizeof(Bf16) == 2);

// Kernels compute on values of type T in this type.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, Bf16>, float, T>;

}  // namespace omni
