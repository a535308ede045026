// Channels of one pixel as vectors that stay in registers while a kernel walks over other pixels;
// the compiler would keep plain arrays in memory across such loops.
#pragma once

#include <cstring>
#include <type_traits>

namespace omni {

// Floats in a vector register. A wider vector would also compile, but not be passed in registers.
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

template <class Vector, class T>
void store_pack(T* to, Vector value) {
  std::memcpy(to, &value, sizeof value);
}

// Calls step(lanes, packs, first channel), the first two as compile-time constants, until all c
// channels are done exactly once: four packs at a time, so that their dependency chains overlap,
// then single ones, then the rest with narrower packs.
template <class Step>
void for_each_chunk(int c, Step step) {
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
