// This file computes local response normalisation on a GPU. Each value has a thread, which adds up
// the window of that value. The values of a window are in the first-level cache.
#include "codelets/normalise/lrn.hpp"

#include "codelets/cuda/rows.cuh"

namespace omni {
namespace {

template <class Power, class T>
struct LrnForward {
  struct Column {
    LrnForward pass;
    int k;
    __device__ void operator()(std::int64_t row) const {
      const std::int64_t first = row * pass.args.c;
      const float scale = reference::lrn_scale(pass.args, pass.src + first, k);
      pass.scale[first + k] = scale;
      pass.dst[first + k] = pass.src[first + k] * pass.power(scale);
    }
  };

  LrnArgs args;
  Power power;
  const T* src;
  T* dst;
  float* scale;
  __device__ Column operator()(int k) const { return {*this, k}; }
};

template <class Power, class T>
struct LrnBackward {
  struct Column {
    LrnBackward pass;
    int k;
    __device__ void operator()(std::int64_t row) const {
      const std::int64_t first = row * pass.args.c, at = first + k;
      const float sum = reference::lrn_pull(pass.args, pass.dst + first, pass.scale + first,
                                            pass.diff_dst + first, k);
      pass.diff_src[at] = pass.diff_dst[at] * pass.power(pass.scale[at]) -
                          2 * pass.args.alpha * pass.args.beta * pass.src[at] * sum;
    }
  };

  LrnArgs args;
  Power power;
  const T *src, *dst;
  const float* scale;
  const T* diff_dst;
  T* diff_src;
  __device__ Column operator()(int k) const { return {*this, k}; }
};

}  // namespace

void gpu::lrn_forward(const LrnArgs& args, const Buffers& buffers, DeviceContext&) {
  const auto forward = [&]<class Power, class T>(Power power, T) {
    for_each_column(
        CudaWorker::current(), args.rows, args.c,
        LrnForward<Power, T>{args, power, buffers.get<T>(0), buffers.get<T>(1), buffers.get(2)});
  };
  with_power(args.beta,
             [&](auto power) { with_values(buffers, [&](auto t) { forward(power, t); }); });
}

void gpu::lrn_backward(const LrnArgs& args, const Buffers& buffers, DeviceContext&) {
  const auto backward = [&]<class Power, class T>(Power power, T) {
    for_each_column(CudaWorker::current(), args.rows, args.c,
                    LrnBackward<Power, T>{args, power, buffers.get<T>(0), buffers.get<T>(1),
                                          buffers.get(2), buffers.get<T>(3), buffers.get<T>(4)});
  };
  with_power(args.beta,
             [&](auto power) { with_values(buffers, [&](auto t) { backward(power, t); }); });
}

}  // namespace omni
