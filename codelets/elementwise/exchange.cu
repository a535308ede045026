// The update of a parameter on a GPU.
#include "codelets/elementwise/exchange.hpp"

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
void update(CudaWorker& worker, const ExchangeArgs& args, const Buffers& buffers) {
  const Update<Step> use{Step(args),
                         buffers.get(0),
                         buffers.get(1),
                         buffers.get(2),
                         args.refresh ? buffers.get(3) : nullptr,
                         args.adam ? buffers.get(mean_square_index(args)) : nullptr};
  for_each_by_fours(worker, args.count, use, use.master, use.diff, use.velocity, use.replica,
                    use.mean_square);
}

}  // namespace

void gpu::exchange(const ExchangeArgs& args, const Buffers& buffers, DeviceContext&) {
  CudaWorker& worker = CudaWorker::current();
  if (args.adam)
    update<AdamStep>(worker, args, buffers);
  else
    update<MomentumStep>(worker, args, buffers);
}

}  // namespace omni
