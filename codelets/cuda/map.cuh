// Element-wise loops that move four neighbours at a time: dst[i] = f(src[i], ...), and the form for
// kernels with several results.
#pragma once

#include <array>
#include <type_traits>
#include <utility>

#include "codelets/cuda/rows.cuh"

namespace omni {

// Calls use(std::integral_constant<int, lanes>): 4 if so, else 1.
template <class Use>
void with_lanes(bool fours, Use use) {
  if (fours)
    use(std::integral_constant<int, 4>());
  else
    use(std::integral_constant<int, 1>());
}

// Both work for elements first, first + 1, ... with `lanes` of them, floats in registers.
template <int lanes, class T>
__device__ Lanes<lanes> load(const T* from, std::int64_t first) {
  const auto values = *reinterpret_cast<const Lanes<lanes, T>*>(from + first);
  if constexpr (std::is_same_v<T, float>) {
    return values;
  } else {
    Lanes<lanes> floats;
    for (int i = 0; i < lanes; ++i) floats.at[i] = values.at[i];
    return floats;
  }
}
template <int lanes, class T>
__device__ void store(T* to, std::int64_t first, const Lanes<lanes>& floats) {
  Lanes<lanes, T> values;
  for (int i = 0; i < lanes; ++i) values.at[i] = floats.at[i];
  *reinterpret_cast<Lanes<lanes, T>*>(to + first) = values;
}

// use.at<lanes>(first), until all of `count` elements are done by a row of blocks.
template <class Use>
struct ByFours {
  Use use;
  std::int64_t count = 0, fours = 0;

  // `pointers`: where the elements begin.
  template <class... T>
  ByFours(std::int64_t elements, Use with, const T*... pointers)
      : use(with), count(elements), fours(by_fours(0, pointers...) ? elements / 4 : 0) {}

  std::int64_t threads() const { return std::max(fours, count - 4 * fours); }
  __device__ void run() const {
    const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
    for (std::int64_t i = thread; i < fours; i += stride) use.template at<4>(4 * i);
    for (std::int64_t i = 4 * fours + thread; i < count; i += stride) use.template at<1>(i);
  }
};

template <class Use>
__global__ void fours_kernel(ByFours<Use> elements) {
  elements.run();
}

template <class Use, class... T>
void for_each_by_fours(CudaWorker& worker, std::int64_t count, Use use, const T*... pointers) {
  if (count <= 0) return;
  const ByFours<Use> elements(count, use, pointers...);
  launch(fours_kernel<Use>, blocks_for(worker, elements.threads()), dim3(kThreads), 0,
         worker.stream(), elements);
}

template <class F, class To, class From, std::size_t inputs>
struct Mapping {
  F f;
  To* dst;
  std::array<const From*, inputs> src;

  template <int lanes>
  __device__ void at(std::int64_t first) const {
    apply<lanes>(first, std::make_index_sequence<inputs>());
  }
  template <int lanes, std::size_t... input>
  __device__ void apply(std::int64_t first, std::index_sequence<input...>) const {
    const Lanes<lanes> values[] = {load<lanes>(src[input], first)...};
    Lanes<lanes> results;
    for (int i = 0; i < lanes; ++i) results.at[i] = f(values[input].at[i]...);
    store(dst, first, results);
  }
};

// dst[i] = f(src[i], ...) for every i below count. dst may be one of the sources.
template <class F, class To, class From, class... More>
void map_elements(CudaWorker& worker, std::int64_t count, F f, To* dst, const From* src,
                  const More*... more) {
  for_each_by_fours(worker, count,
                    Mapping<F, To, From, 1 + sizeof...(More)>{f, dst, {src, more...}}, dst, src,
                    more...);
}

}  // namespace omni
