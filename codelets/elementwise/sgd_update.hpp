// One step of stochastic gradient descent with momentum and weight decay:
//   g = gradient_scale * diff + decay * value
//   velocity = momentum * velocity + g
//   value -= learning_rate * velocity
//   diff = 0, ready for the next iteration to add to
// The rate is outside the velocity, as in Darknet. Caffe's velocity contains it; that is the same
// while the rate is constant, and differs for 1/(1-momentum) iterations after a change of rate.
#pragma once

#include <cstdint>

#include "runtime/tasks/codelet.hpp"

namespace omni {

struct SgdUpdateArgs {
  std::int64_t count = 0;  // set by the submit function
  float learning_rate = 0;
  float momentum = 0;
  float decay = 0;
  float gradient_scale = 1;  // 1 / batch: diffs are sums over the images
};

namespace reference {

template <class T>
void sgd_update(const SgdUpdateArgs& args, T* value, T* diff, T* velocity) {
  for (std::int64_t i = 0; i < args.count; ++i) {
    const T gradient =
        static_cast<T>(args.gradient_scale) * diff[i] + static_cast<T>(args.decay) * value[i];
    velocity[i] = static_cast<T>(args.momentum) * velocity[i] + gradient;
    value[i] -= static_cast<T>(args.learning_rate) * velocity[i];
    diff[i] = 0;
  }
}

}  // namespace reference

extern Codelet<SgdUpdateArgs> sgd_update;  // {value RW, diff RW, velocity RW}

// A task per part of the three, which are cut alike.
void submit_sgd_update(SgdUpdateArgs args, const Tensor& value, const Tensor& diff,
                       const Tensor& velocity, TaskTag tag = {});

}  // namespace omni
