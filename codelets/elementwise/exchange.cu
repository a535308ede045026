// The update of parameters on a GPU, of all of a task by one kernel.
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
FoursOf<Update<Step>> update_of(const ExchangeArgs& args, const ExchangeBuffers<float>& at) {
  return fours_of(
      args.count,
      Update<Step>{Step(args), at.master, at.diff, at.velocity, at.replica, at.mean_square},
      at.master, at.diff, at.velocity, at.replica, at.mean_square);
}

template <class Step>
void update_all(CudaWorker& worker, const ExchangesArgs& args, const Buffers& buffers) {
  const auto update = [&](std::size_t i) {
    return update_of<Step>(args.of[i], exchange_buffers(args, buffers, i));
  };
  std::array all{update(0), update(0), update(0)};
  static_assert(all.size() == ExchangesArgs::kMost);
  for (std::size_t i = 1; i < args.parameters; ++i) all[i] = update(i);
  for_each_by_fours(worker, all, args.parameters);
}

}  // namespace

void gpu::update_values(CudaWorker& worker, const ExchangeArgs& args,
                        const ExchangeBuffers<float>& buffers) {
  with_step(args, [&]<class Step>(const Step&) {
    for_each_by_fours(worker, std::array{update_of<Step>(args, buffers)}, 1);
  });
}

void gpu::exchange(const ExchangesArgs& args, const Buffers& buffers, DeviceContext&) {
  with_step(args.of[0], [&]<class Step>(const Step&) {
    update_all<Step>(CudaWorker::current(), args, buffers);
  });
}

}  // namespace omni
