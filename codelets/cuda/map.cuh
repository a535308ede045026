// This header has element-wise loops on a GPU: dst[i] = f(src[i], ...), and a form for kernels with
// several results. A thread moves several neighbouring values at a time.
#pragma once

#include <array>
#include <type_traits>
#include <utility>

#include "codelets/cuda/rows.cuh"
#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

// Calls use(std::integral_constant<int, n>), where n is `lanes` if `most` is true, else 1.
template <class T, int lanes = kMostLanes<T>, class Use>
void with_lanes(bool most, Use use) {
  if (most)
    use(std::integral_constant<int, lanes>());
  else
    use(std::integral_constant<int, 1>());
}

// load() loads `lanes` elements from number `first` on as floats. store() stores such floats.
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

// Calls use.at<lanes>(first) for whole vectors and use.at<1>(first) for the rest, until a row of
// blocks has done all `count` elements. The row is the whole grid or a part of it; in a part, run()
// gets the block's number.
template <int lanes, class Use>
struct ByLanes {
  Use use;
  std::int64_t count = 0, vectors = 0;

  // `pointers` point to the first elements that `use` loads or stores.
  template <class... T>
  ByLanes(std::int64_t elements, Use with, const T*... pointers)
      : use(with),
        count(elements),
        vectors(divides(lanes, 0, pointers...) ? elements / lanes : 0) {}

  std::int64_t threads() const { return std::max(vectors, count - lanes * vectors); }
  __device__ void run() const { run(blockIdx.x, gridDim.x); }
  __device__ void run(unsigned block, unsigned blocks) const {
    const std::int64_t thread = std::int64_t{block} * blockDim.x + threadIdx.x;
    const std::int64_t stride = std::int64_t{blocks} * blockDim.x;
    for (std::int64_t i = thread; i < vectors; i += stride) use.template at<lanes>(lanes * i);
    for (std::int64_t i = lanes * vectors + thread; i < count; i += stride) use.template at<1>(i);
  }
};

template <int lanes, class Use>
__global__ void lanes_kernel(ByLanes<lanes, Use> elements) {
  elements.run();
}

// Calls `use` for all elements, several at a time. T is the largest type that `use` loads or
// stores.
template <class T, class Use, class... Each>
void for_each_by_lanes(CudaWorker& worker, std::int64_t count, Use use, const Each*... pointers) {
  if (count <= 0) return;
  constexpr int kLanes = kMostLanes<T>;
  const ByLanes<kLanes, Use> elements(count, use, pointers...);
  launch(lanes_kernel<kLanes, Use>, blocks_for(worker, elements.threads()), dim3(kThreads), 0,
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

// Computes dst[i] = f(src[i], ...) for every i below `count`. dst may be one of the sources.
template <class F, class To, class From, class... More>
void map_elements(CudaWorker& worker, std::int64_t count, F f, To* dst, const From* src,
                  const More*... more) {
  using Larger = std::conditional_t<(sizeof(To) > sizeof(From)), To, From>;
  for_each_by_lanes<Larger>(worker, count,
                            Mapping<F, To, From, 1 + sizeof...(More)>{f, dst, {src, more...}}, dst,
                            src, more...);
}

// The following code applies activations inside other kernels, and in bf16.

// AnyActivation is one functor for all activations that nets rarely use; it selects the activation
// for every value. The usual activations have kernels of their own. 19 instances of every kernel
// would take minutes to compile.
struct AnyActivation {
  Activation activation;
  __device__ float operator()(float x) const {
    return with_activation(activation, [=](auto f) { return f(x); });
  }
  __device__ float gradient(float value) const {
    return with_activation(activation, [=](auto f) { return f.gradient(value); });
  }
};

void with_usual_activation(Activation activation, auto use) {
  switch (activation) {
    case Activation::linear: return use(activations::Linear{});
    case Activation::relu: return use(activations::Relu{});
    case Activation::leaky: return use(activations::Leaky{});
    default: return use(AnyActivation{activation});
  }
}

// Calls use(f, T()) with the activation's functor f. T is the type of the values in the buffers of
// Implementation::in_bf16.
void with_usual_activation(Activation activation, const Buffers& buffers, auto use) {
  with_usual_activation(activation,
                        [&](auto f) { with_values(buffers, [&](auto value) { use(f, value); }); });
}

// Calls use(f) with the activation's functor f. For floats every activation has a kernel of its
// own, for bf16 only the usual ones have.
template <class T, class Use>
void with_activation_of(Activation activation, Use use) {
  if constexpr (std::is_same_v<T, float>)
    with_activation(activation, use);
  else
    with_usual_activation(activation, use);
}

}  // namespace omni
