// What groups do with their models at a meeting, on a GPU.
#include "codelets/elementwise/meeting.hpp"

#include "codelets/cuda/map.cuh"

namespace omni {
namespace {

struct Contribution {
  float weight;
  float* change;
  const float *model, *centre;

  template <int lanes>
  __device__ void at(std::int64_t first) const {
    Lanes<lanes> sum = load<lanes>(change, first);
    const Lanes<lanes> own = load<lanes>(model, first), middle = load<lanes>(centre, first);
    for (int i = 0; i < lanes; ++i) sum.at[i] += weight * (own.at[i] - middle.at[i]);
    store(change, first, sum);
  }
};

struct Move {
  CentreStep<float> step;
  float *centre, *change, *velocity;

  template <int lanes>
  __device__ void at(std::int64_t first) const {
    Lanes<lanes> middle = load<lanes>(centre, first), sum = load<lanes>(change, first),
                 speed = load<lanes>(velocity, first);
    for (int i = 0; i < lanes; ++i) step(middle.at[i], sum.at[i], speed.at[i]);
    store(centre, first, middle);
    store(change, first, sum);
    store(velocity, first, speed);
  }
};

struct Copy {
  float* model;
  const float* centre;

  template <int lanes>
  __device__ void at(std::int64_t first) const {
    store(model, first, load<lanes>(centre, first));
  }
};

}  // namespace

void gpu::contribute(const ContributeArgs& args, const Buffers& buffers, DeviceContext&) {
  const Contribution all{args.weight, buffers.get(0), buffers.get(1), buffers.get(2)};
  for_each_by_lanes<float>(CudaWorker::current(), args.count, all, all.change, all.model,
                           all.centre);
}

void gpu::move_centre(const MoveCentreArgs& args, const Buffers& buffers, DeviceContext&) {
  const Move all{CentreStep<float>(args), buffers.get(0), buffers.get(1), buffers.get(2)};
  for_each_by_lanes<float>(CudaWorker::current(), args.count, all, all.centre, all.change,
                           all.velocity);
}

void gpu::publish(const PublishArgs& args, const Buffers& buffers, DeviceContext&) {
  const Copy all{buffers.get(0), buffers.get(1)};
  for_each_by_lanes<float>(CudaWorker::current(), args.count, all, all.model, all.centre);
}

}  // namespace omni
