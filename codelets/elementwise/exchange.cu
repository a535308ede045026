// The update of parameters on a GPU.
#include "codelets/elementwise/exchange.hpp"

#include <array>

#include "codelets/cuda/map.cuh"
#include "codelets/elementwise/exchange_steps.hpp"

namespace omni {
namespace {

template <class Step>
struct Update {
  Step step;
  float *master, *diff, *velocity;
  float* replica;      // null: none
  float* mean_square;  // null: not Adam

  template <int lanes>
  __device__ void at(std::int64_t first) const {
    Lanes<lanes> value = load<lanes>(master, first), gradient = load<lanes>(diff, first),
                 speed = load<lanes>(velocity, first);
    if constexpr (std::is_same_v<Step, AdamStep>) {
      Lanes<lanes> square = load<lanes>(mean_square, first);
      for (int i = 0; i < lanes; ++i) step(value.at[i], gradient.at[i], speed.at[i], square.at[i]);
      store(mean_square, first, square);
    } else {
      for (int i = 0; i < lanes; ++i) step(value.at[i], gradient.at[i], speed.at[i]);
    }
    store(master, first, value);
    store(diff, first, gradient);
    store(velocity, first, speed);
    if (replica != nullptr) store(replica, first, value);
  }
};

template <class Step>
using OneParam = ByLanes<kMostLanes<float>, Update<Step>>;

// A row of blocks for each.
template <class Step>
__global__ void update_kernel(OneParam<Step> first, OneParam<Step> second, OneParam<Step> third) {
  if (blockIdx.y == 0)
    first.run();
  else if (blockIdx.y == 1)
    second.run();
  else
    third.run();
}

template <class Step>
OneParam<Step> one_param(const ExchangeArgs& args, const Exchanged<float>& of) {
  return {args.count,
          Update<Step>{Step(args), of.master, of.diff, of.velocity, of.replica, of.mean_square},
          of.master,
          of.diff,
          of.velocity,
          of.replica,
          of.mean_square};
}

template <class Step>
void update(const ExchangeTaskArgs& args, const Buffers& buffers) {
  static_assert(ExchangeTaskArgs::kMost == 3);
  const OneParam<Step> none = one_param<Step>({}, {});
  std::array<OneParam<Step>, ExchangeTaskArgs::kMost> each{none, none, none};
  std::int64_t threads = 0;
  for_each_exchanged<float>(
      args, buffers, [&](std::size_t i, const ExchangeArgs& one, const Exchanged<float>& of) {
        each[i] = one_param<Step>(one, of);
        threads = std::max(threads, each[i].threads());
      });
  if (threads == 0) return;
  CudaWorker& worker = CudaWorker::current();
  dim3 blocks = blocks_for(worker, threads);
  blocks.y = static_cast<unsigned>(args.params);
  launch(update_kernel<Step>, blocks, dim3(kThreads), 0, worker.stream(), each[0], each[1],
         each[2]);
}

}  // namespace

void gpu::exchange(const ExchangeTaskArgs& args, const Buffers& buffers, DeviceContext&) {
  if (args.all().front().adam)
    update<AdamStep>(args, buffers);
  else
    update<MomentumStep>(args, buffers);
}

}  // namespace omni
