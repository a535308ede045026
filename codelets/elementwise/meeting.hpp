// In a meeting, groups that have models of their own combine them. For every parameter it computes:
//   contribute:  change += weight * (model - centre)            by each group
//   move_centre: velocity = momentum * velocity + change
//                centre += rate * (nesterov ? momentum * velocity + change : velocity)
//                change = 0
//   publish:     model = keeps * model + (1 - keeps) * centre   to each group
// The centre is the model that is evaluated and saved. If the weights add up to 1, the rate is 1
// and the momentum 0, the centre becomes the weighted mean of the groups' models.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/bf16/bf16.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

struct ContributeArgs {
  std::int64_t count = 0;  // number of values; the submit functions set it, here and below
  float weight = 1;
};

struct MoveCentreArgs {
  std::int64_t count = 0;
  float rate = 1, momentum = 0;
  bool nesterov = false;
};

struct PublishArgs {
  std::int64_t count = 0;
  float keeps = 0;  // share of the model that stays; 0: the model becomes the centre
};

// A CentreStep computes the step of one value of the centre.
template <class T>
struct CentreStep {
  T rate, momentum;
  bool nesterov;

  explicit CentreStep(const MoveCentreArgs& args)
      : rate(static_cast<T>(args.rate)),
        momentum(static_cast<T>(args.momentum)),
        nesterov(args.nesterov) {}

  OMNI_HD void operator()(T& centre, T& change, T& velocity) const {
    velocity = momentum * velocity + change;
    centre += rate * (nesterov ? momentum * velocity + change : velocity);
    change = 0;
  }
};

OMNI_CODELET(ContributeArgs, contribute);   // {change RW, model R, centre R}
OMNI_CODELET(MoveCentreArgs, move_centre);  // {centre RW, change RW, velocity RW}
OMNI_CODELET(PublishArgs, publish);         // {model W, or RW if a share stays, centre R}

void submit_contribute(float weight, TensorPart model, TensorPart centre, TensorPart change,
                       TaskTag tag = {});
// Submits one task per part of the centre; all tensors are cut into the same parts. If `only` is
// set, only this part is moved; the centre may then have no other values.
void submit_move_centre(const MoveCentreArgs& args, const Tensor& centre, const Tensor& change,
                        const Tensor& velocity, TaskTag tag = {},
                        std::optional<TensorPart> only = {});
void submit_publish(TensorPart centre, TensorPart model, TaskTag tag, float keeps);
void submit_publish(const Tensor& centre, const Tensor& model, TaskTag tag = {}, float keeps = 0);

}  // namespace omni
