// This header has vectors of a pixel's channels that stay in registers while a kernel loops over
// other pixels. The compiler would keep plain arrays in memory during such loops.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/bf16/bf16.hpp"

namespace omni {

// kWidestPack is the number of floats in a vector register. Wider vectors would compile, but not be
// passed in registers.
#if defined(__AVX512F__)
inline constexpr int kWidestPack = 16;
#elif defined(__AVX__)
inline constexpr int kWidestPack = 8;
#else
inline constexpr int kWidestPack = 4;
#endif

template <class T, int lanes>
struct Pack {
  using Type [[gnu::vector_size(lanes * sizeof(T))]] = T;
};

template <class T, int lanes>
typename Pack<T, lanes>::Type load_pack(const T* from) {
  typename Pack<T, lanes>::Type value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void store_pack(auto* to, auto value) { std::memcpy(to, &value, sizeof value); }

// Loads values as floats, whether the tensor holds floats or bf16.
template <int lanes>
typename Pack<float, lanes>::Type load_floats(const float* from) {
  return load_pack<float, lanes>(from);
}
template <int lanes>
typename Pack<float, lanes>::Type load_floats(const Bf16* from) {
  typename Pack<std::uint16_t, lanes>::Type bits;
  std::memcpy(&bits, from, sizeof bits);
  const auto wide = __builtin_convertvector(bits, typename Pack<std::uint32_t, lanes>::Type) << 16;
  typename Pack<float, lanes>::Type value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

template <int lanes>
void store_floats(float* to, typename Pack<float, lanes>::Type value) {
  store_pack(to, value);
}
template <int lanes>
void store_floats(Bf16* to, typename Pack<float, lanes>::Type value) {
  typename Pack<std::uint32_t, lanes>::Type all;
  std::memcpy(&all, &value, sizeof all);
  const auto rounded = all + 0x7FFFu + (all >> 16 & 1u), quiet = all | 0x00400000u;
  store_pack(to, __builtin_convertvector((value == value ? rounded : quiet) >> 16,
                                         typename Pack<std::uint16_t, lanes>::Type));
}

// Calls step(lanes, packs, first channel) until all c channels are done once; `lanes` and `packs`
// are compile-time constants. First it takes four packs at a time, so that their dependency chains
// overlap. Then it takes single packs, and narrower ones for the remaining channels.
void for_each_chunk(int c, auto step) {
  int k = 0;
  const auto cover = [&]<int lanes, int packs>() {
    for (; k + lanes * packs <= c; k += lanes * packs)
      step(std::integral_constant<int, lanes>{}, std::integral_constant<int, packs>{}, k);
  };
  cover.template operator()<kWidestPack, 4>();
  cover.template operator()<kWidestPack, 1>();
  cover.template operator()<4, 1>();
  cover.template operator()<1, 1>();
}

}  // namespace omni
