#include "codelets/convolution/cudnn/bf16_copies.hpp"

#include "codelets/cuda/map.cuh"
#include "codelets/dense/bf16.hpp"

namespace omni {
namespace {

template <int lanes>
struct alignas(lanes * sizeof(gpu::Bf16)) Halves {
  gpu::Bf16 at[lanes];
};

struct Rounding {
  const float* from;
  gpu::Bf16* to;

  template <int lanes>
  __device__ void at(std::int64_t first) const {
    const Lanes<lanes> values = load<lanes>(from, first);
    Halves<lanes> rounded;
    for (int i = 0; i < lanes; ++i) rounded.at[i] = bf16_bits(values.at[i]);
    *reinterpret_cast<Halves<lanes>*>(to + first) = rounded;
  }
};

struct Adding {
  const gpu::Bf16* from;
  float keep;
  float* to;

  template <int lanes>
  __device__ void at(std::int64_t first) const {
    const auto added = *reinterpret_cast<const Halves<lanes>*>(from + first);
    Lanes<lanes> sum{};
    if (keep != 0.0f) sum = load<lanes>(to, first);
    for (int i = 0; i < lanes; ++i) sum.at[i] = keep * sum.at[i] + float_of_bf16_bits(added.at[i]);
    store(to, first, sum);
  }
};

}  // namespace

void gpu::round_to_bf16(CudaWorker& worker, std::int64_t count, const float* from, Bf16* to) {
  for_each_by_fours(worker, count, Rounding{from, to}, from);
}

void gpu::add_bf16(CudaWorker& worker, std::int64_t count, const Bf16* from, float keep,
                   float* to) {
  for_each_by_fours(worker, count, Adding{from, keep, to}, to);
}

}  // namespace omni
