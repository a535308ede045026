// This file computes dropout on a GPU. A thread draws one block of bits and decides its four
// elements, so that threads next to each other have elements next to each other.
#include "codelets/elementwise/dropout.hpp"

#include "codelets/cuda/rows.cuh"

namespace omni {
namespace {

template <class T>
struct Drop {
  Philox philox;
  DropoutRule rule;
  std::uint64_t first_sample;
  int layer;
  std::int64_t per_sample;
  T* values;

  __device__ void operator()(int sample, int, int, int block) const {
    const auto bits = philox(first_sample + sample, dropout_counter(layer, block));
    const std::int64_t first = std::int64_t{block} / 16 * 64 + block % 16;
    const std::int64_t start = sample * per_sample;
#pragma unroll  // keeps the bits in registers
    for (int word = 0; word < 4; ++word) {
      const std::int64_t e = first + 16 * word;
      if (e >= per_sample) return;
      const bool lives = bits[word] >= rule.threshold;
      const float value = values[start + e];
      values[start + e] = lives ? value * rule.scale : 0.0f;
    }
  }
};

}  // namespace

void gpu::dropout(const DropoutArgs& args, const Buffers& buffers, DeviceContext&) {
  const auto blocks = static_cast<int>((args.per_sample + 63) / 64 * 16);
  with_values(buffers, [&]<class T>(T) {
    for_each_position(
        CudaWorker::current(), args.n, {1, 1, blocks},
        Drop<T>{Philox(args.seed, RandomStream::dropout), DropoutRule(args.probability),
                args.first_sample, args.layer, args.per_sample, buffers.get<T>(0)});
  });
}

}  // namespace omni
