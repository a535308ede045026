// This file updates parameters on a GPU.
#include "codelets/elementwise/exchange.hpp"

#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

template <class Step>
struct Update {
  Step step;
  float *master, *diff, *velocity;
  float* replica;       // null: none
  float* mean_square;   // null: the step has none
  const float* centre;  // null: no pull
  float* change;
  Bf16* rounded;  // null: none
  float pull;
  bool clears;

  template <int lanes>
  __device__ void at(std::int64_t first) const {
    Lanes<lanes> value = load<lanes>(master, first), gradient = load<lanes>(diff, first),
                 speed = load<lanes>(velocity, first);
    Lanes<lanes> correction{};
    if (centre != nullptr) {
      const Lanes<lanes> middle = load<lanes>(centre, first);
      for (int i = 0; i < lanes; ++i) correction.at[i] = pull * (value.at[i] - middle.at[i]);
    }
    if constexpr (Step::kSquares) {
      Lanes<lanes> square = load<lanes>(mean_square, first);
      for (int i = 0; i < lanes; ++i) step(value.at[i], gradient.at[i], speed.at[i], square.at[i]);
      store(mean_square, first, square);
    } else {
      for (int i = 0; i < lanes; ++i) step(value.at[i], gradient.at[i], speed.at[i]);
    }
    if (centre != nullptr) {
      Lanes<lanes> sum = load<lanes>(change, first);
      for (int i = 0; i < lanes; ++i) {
        value.at[i] -= correction.at[i];
        sum.at[i] += correction.at[i];
      }
      store(change, first, sum);
    }
    store(master, first, value);
    if (clears) store(diff, first, Lanes<lanes>{});
    store(velocity, first, speed);
    if (replica != nullptr) store(replica, first, value);
    if (rounded != nullptr) store(rounded, first, value);
  }
};

template <class Step>
using OneParam = ByLanes<kMostLanes<float>, Update<Step>>;

// One launch updates all parameters. Each parameter has as many blocks as its values need.
template <class Step>
struct AllParams {
  unsigned count = 0;
  std::array<unsigned, ExchangeTaskArgs::kMost> first_block{};
  union {  // a union, so that unused ones are not initialised
    OneParam<Step> each[ExchangeTaskArgs::kMost];
  };
  AllParams() {}
};

template <class Step>
__global__ void update_kernel(const __grid_constant__ AllParams<Step> params) {
  unsigned number = params.count - 1;
  while (blockIdx.x < params.first_block[number]) --number;
  const unsigned first = params.first_block[number];
  const unsigned end = number + 1 == params.count ? gridDim.x : params.first_block[number + 1];
  params.each[number].run(blockIdx.x - first, end - first);
}

template <class Step>
void update(const ExchangeTaskArgs& args, const Buffers& buffers) {
  constexpr std::size_t kMostBytes = 4096;  // the most bytes of a kernel's arguments
  static_assert(sizeof(AllParams<Step>) <= kMostBytes);
  CudaWorker& worker = CudaWorker::current();
  AllParams<Step> params;
  unsigned blocks = 0;
  for_each_exchanged<float>(
      args, buffers, [&](std::size_t, const ExchangeArgs& one, const Exchanged<float>& of) {
        if (one.count == 0) return;
        auto* const rounded = static_cast<Bf16*>(of.rounded);
        params.first_block[params.count] = blocks;
        new (&params.each[params.count++]) OneParam<Step>(
            one.count,
            Update<Step>{Step(one), of.master, of.diff, of.velocity, of.replica, of.mean_square,
                         of.centre, of.change, rounded, one.pull, one.clears},
            of.master, of.diff, of.velocity, of.replica, of.mean_square, of.centre, of.change,
            rounded);
        blocks += blocks_for(worker, params.each[params.count - 1].threads()).x;
      });
  if (blocks > 0)
    launch(update_kernel<Step>, dim3(blocks), dim3(kThreads), 0, worker.stream(), params);
}

}  // namespace

void gpu::exchange(const ExchangeTaskArgs& args, const Buffers& buffers, DeviceContext&) {
  use_step_of(args.all().front(), [&]<class Step>(const Step&) { update<Step>(args, buffers); });
}

}  // namespace omni
