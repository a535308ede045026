// This file has the operations of a meeting on a GPU.
#include "codelets/elementwise/meeting.hpp"

#include "codelets/cuda/map.cuh"
#include "runtime/cuda/first_launch.hpp"

namespace omni {
namespace {

struct Contribute {
  float weight;
  __device__ float operator()(float sum, float own, float middle) const {
    return sum + __fmul_rn(weight, own - middle);  // rounded, as on a CPU
  }
};

struct Mix {
  float keeps;
  __device__ float operator()(float own, float middle) const {
    return keeps * own + (1 - keeps) * middle;
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

}  // namespace

void gpu::contribute(const ContributeArgs& args, const Buffers& buffers, DeviceContext&) {
  float* const change = buffers.get(0);
  map_elements<Contribute, float, float>(CudaWorker::current(), args.count, {args.weight}, change,
                                         change, buffers.get(1), buffers.get(2));
}

void gpu::move_centre(const MoveCentreArgs& args, const Buffers& buffers, DeviceContext&) {
  const Move all{CentreStep<float>(args), buffers.get(0), buffers.get(1), buffers.get(2)};
  for_each_by_lanes<float>(CudaWorker::current(), args.count, all, all.centre, all.change,
                           all.velocity);
}

void gpu::publish(const PublishArgs& args, const Buffers& buffers, DeviceContext&) {
  if (args.keeps != 0) {
    float* const model = buffers.get(0);
    return map_elements<Mix, float, float>(CudaWorker::current(), args.count, {args.keeps}, model,
                                           model, buffers.get(1));
  }
  about_to_launch();
  check(cudaMemcpyAsync(buffers.get(0), buffers.get(1), args.count * sizeof(float),
                        cudaMemcpyDeviceToDevice, CudaWorker::current().stream()),
        "copying a model");
}

}  // namespace omni
