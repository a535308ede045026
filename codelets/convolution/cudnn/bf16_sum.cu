#include "codelets/convolution/cudnn/bf16_sum.hpp"

#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

struct Adding {
  const Bf16* from;
  float keep;
  float* to;

  template <int lanes>
  __device__ void at(std::int64_t first) const {
    const Lanes<lanes> added = load<lanes>(from, first);
    Lanes<lanes> sum{};
    if (keep != 0.0f) sum = load<lanes>(to, first);
    for (int i = 0; i < lanes; ++i) sum.at[i] = keep * sum.at[i] + added.at[i];
    store(to, first, sum);
  }
};

}  // namespace

void gpu::add_bf16(CudaWorker& worker, std::int64_t count, const Bf16* from, float keep,
                   float* to) {
  for_each_by_lanes<float>(worker, count, Adding{from, keep, to}, from, to);
}

}  // namespace omni
