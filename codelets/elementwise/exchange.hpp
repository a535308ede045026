// The exchange updates parameters. A compute group gives its gradient to the master copy and takes
// the parameters back. The update is a step of stochastic gradient descent with momentum and weight
// decay:
//   g = gradient_scale * diff + decay * master
//   velocity = momentum * velocity + g
//   master -= learning_rate * velocity
//   diff = 0, unless the next iteration overwrites it instead of adding to it
//   replica = master, if the group computes with a copy of its own
//   rounded = master, if matrix products take weights in bf16
// If groups average their models (SMA), `master` is the group's own model, and the step also pulls
// it towards the centre. All right-hand sides are values before the step:
//   correction = pull * (master - centre);  master -= correction;  change += correction
// Or the step is one of Adam, as Darknet has it (decay is part of the gradient):
//   velocity = momentum * velocity + (1 - momentum) * g
//   mean_square = square_memory * mean_square + (1 - square_memory) * g * g
//   master -= learning_rate * velocity / (1 - momentum^number)
//             / (sqrt(mean_square / (1 - square_memory^number)) + epsilon * gradient_scale)
// The powers correct that both means start from 0. The last factor is there because Darknet's g is
// a sum over the images. With one group, or for merged layers, there is no replica: the layers read
// the master itself.
//
// As in Darknet, the velocity above does not contain the rate. Caffe's does (StepRule::rated). Both
// are the same while the rate is constant, and differ for 1/(1-momentum) iterations after it
// changes:
//   rated:     velocity = momentum * velocity + learning_rate * g;  master -= velocity
//              of Adam, epsilon is added to sqrt(mean_square) before the correction
//   nesterov:  old = velocity;  velocity = momentum * velocity + learning_rate * g
//              master -= (1 + momentum) * velocity - momentum * old
//   adagrad:   velocity = velocity + g * g
//   rmsprop:   velocity = square_memory * velocity + (1 - square_memory) * g * g
//              of both: master -= learning_rate * g / (sqrt(velocity) + epsilon * gradient_scale)
//   adadelta:  mean_square = momentum * mean_square + (1 - momentum) * g * g
//              change = g * sqrt((velocity + e) / (mean_square + e)), e = epsilon * gradient_scale
//              velocity = momentum * velocity + (1 - momentum) * change * change
//              master -= learning_rate * change
// In these rules, except Adam, g may have decay * sign(master) in place of decay * master.
#pragma once

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "codelets/elementwise/activation_functors.hpp"
#include "codelets/elementwise/step_rule.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

// An UpdateCount counts the updates of a master copy. An exchange increases it while it has
// exclusive access to that copy.
using UpdateCount = std::atomic<std::int64_t>;

// A SeenVersion is the version of a parameter with which a group computes: the count of updates
// when the group read it.
struct SeenVersion {
  UpdateCount* count = nullptr;
  std::atomic<std::int64_t> version{0};
};

// An UpdateReport reports on one iteration of one group. The exchanges of the iteration fill it in.
// The last one calls `done` in a worker's thread.
struct UpdateReport {
  std::atomic<int> left{0};  // exchanges that are not done
  // `staleness` is the number of updates by other groups since this group read its first replicated
  // parameter. It holds that parameter longest.
  std::atomic<std::int64_t> staleness{0};
  std::atomic<std::int64_t> fc_staleness{0};  // the largest among the merged parameters
  void (*done)(UpdateReport&, void*) = nullptr;
  void* argument = nullptr;

  void count_down() {
    if (--left == 0) done(*this, argument);
  }
};

// Staleness is which kind of staleness an exchange reports; `unwatched` means that it reports none.
enum class Staleness : std::uint8_t { unwatched, replicated, merged };

struct ExchangeArgs {
  std::int64_t count = 0;  // number of values; the submit function sets it
  float learning_rate = 0;
  float momentum = 0;
  float decay = 0;
  float gradient_scale = 1;  // 1 / batch: diffs are sums over the images
  bool refresh = false;      // there is a replica; the submit function sets it
  bool adam = false;         // there is a mean square; the submit function sets it
  StepRule rule = StepRule::usual;
  bool by_sign = false;  // decay is by the parameter's sign; not with StepRule::usual or Adam
  float square_memory = 0.999f, epsilon = 1e-7f;  // only with Adam and rules that divide by a root
  std::uint64_t number = 1;                       // of the update, from 1; only Adam uses it
  bool clears = true;                             // true: the gradient becomes 0
  Staleness reports = Staleness::unwatched;
  SeenVersion* seen = nullptr;     // null: staleness is not measured
  UpdateReport* report = nullptr;  // null: nothing is reported
  bool corrects = false;           // there is a centre; the submit function sets it
  bool rounds = false;             // there is a copy in bf16; the submit function sets it
  float pull = 0;                  // share of the distance to the centre

  // If a parameter is updated in parts, only the first part counts as an update. Call this function
  // for all other parts.
  void leave_uncounted() {
    seen = nullptr;
    reports = Staleness::unwatched;
  }
};

// count_update() raises the count and notes version and staleness when a task begins.
// report_update() counts down the report when the task has ended.
void count_update(const ExchangeArgs& args);
void report_update(const ExchangeArgs& args);

// ExchangeTaskArgs are the parameters that one task updates. For a small parameter, a task of its
// own and a launch on a GPU would take longer to start than to run.
struct ExchangeTaskArgs {
  static constexpr std::size_t kMost = 32;
  // A task of StarPU may have few buffers, which limits its number of parameters outside of chains.
  // A parameter with a centre (SMA) has two more buffers.
  static constexpr std::size_t kMostAlone = 3, kMostCorrected = 2;
  std::array<ExchangeArgs, kMost> params{};
  std::size_t count = 0;

  std::span<const ExchangeArgs> all() const { return std::span(params).first(count); }
};

// An Exchanged points to the memory of one parameter. A task has these buffers in this order,
// parameter by parameter.
template <class T>
struct Exchanged {
  T *master, *diff, *velocity;
  T* replica = nullptr;       // null unless ExchangeArgs::refresh
  T* mean_square = nullptr;   // null unless ExchangeArgs::adam
  const T* centre = nullptr;  // null unless ExchangeArgs::corrects
  T* change = nullptr;        // of the centre; null unless ExchangeArgs::corrects
  void* rounded = nullptr;    // Bf16 on a GPU, else T; null unless ExchangeArgs::rounds
};

// Calls use(number, arguments, memory) for every parameter.
template <class T, class Use>
void for_each_exchanged(const ExchangeTaskArgs& args, const Buffers& buffers, Use use) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < args.count; ++i) {
    const ExchangeArgs& one = args.params[i];
    Exchanged<T> of{buffers.get<T>(next), buffers.get<T>(next + 1), buffers.get<T>(next + 2)};
    next += 3;
    if (one.refresh) of.replica = buffers.get<T>(next++);
    if (one.adam) of.mean_square = buffers.get<T>(next++);
    if (one.corrects) {
      of.centre = buffers.get<T>(next++);
      of.change = buffers.get<T>(next++);
    }
    if (one.rounds) of.rounded = buffers.get<void>(next++);
    use(i, one, of);
  }
}

inline double flops_per_value(const ExchangeArgs& args) { return args.adam ? 16 : 7; }

// Returns the sum of the weights that gradients have in a running mean which started from 0.
inline double bias_correction(float memory, std::uint64_t number) {
  return 1 - std::pow(static_cast<double>(memory), static_cast<double>(number));
}

namespace reference {

template <class T>
void exchange(const ExchangeArgs& args, const Exchanged<T>& of) {
  const auto [master, diff, velocity, replica, mean_square, centre, change, rounded] = of;
  const T rate = static_cast<T>(args.learning_rate), momentum = static_cast<T>(args.momentum),
          square_memory = static_cast<T>(args.square_memory),
          gradient_scale = static_cast<T>(args.gradient_scale),
          weight_of_mean = static_cast<T>(bias_correction(args.momentum, args.number)),
          weight_of_square = static_cast<T>(bias_correction(args.square_memory, args.number)),
          pull = static_cast<T>(args.pull);
  for (std::int64_t i = 0; i < args.count; ++i) {
    const T correction = args.corrects ? pull * (master[i] - centre[i]) : 0;
    const T sign = master[i] > 0 ? 1 : master[i] < 0 ? -1 : 0;
    const T gradient =
        gradient_scale * diff[i] + static_cast<T>(args.decay) * (args.by_sign ? sign : master[i]);
    const T epsilon = static_cast<T>(args.epsilon) * gradient_scale;
    if (args.rule == StepRule::adadelta) {
      mean_square[i] = momentum * mean_square[i] + (1 - momentum) * gradient * gradient;
      const T change_of =
          gradient * std::sqrt((velocity[i] + epsilon) / (mean_square[i] + epsilon));
      velocity[i] = momentum * velocity[i] + (1 - momentum) * change_of * change_of;
      master[i] -= rate * change_of;
    } else if (args.rule == StepRule::adagrad || args.rule == StepRule::rmsprop) {
      const bool forgets = args.rule == StepRule::rmsprop;
      velocity[i] = (forgets ? square_memory : 1) * velocity[i] +
                    (forgets ? 1 - square_memory : 1) * gradient * gradient;
      master[i] -= rate * gradient / (std::sqrt(velocity[i]) + epsilon);
    } else if (args.rule == StepRule::nesterov) {
      const T old = velocity[i];
      velocity[i] = momentum * velocity[i] + rate * gradient;
      master[i] -= (1 + momentum) * velocity[i] - momentum * old;
    } else if (args.adam) {
      velocity[i] = momentum * velocity[i] + (1 - momentum) * gradient;
      mean_square[i] = square_memory * mean_square[i] + (1 - square_memory) * gradient * gradient;
      const T mean = velocity[i] / weight_of_mean, square = mean_square[i] / weight_of_square;
      const T corrected =
          args.rule == StepRule::rated ? epsilon / std::sqrt(weight_of_square) : epsilon;
      master[i] -= rate * mean / (std::sqrt(square) + corrected);
    } else if (args.rule == StepRule::rated) {
      velocity[i] = momentum * velocity[i] + rate * gradient;
      master[i] -= velocity[i];
    } else {
      velocity[i] = momentum * velocity[i] + gradient;
      master[i] -= rate * velocity[i];
    }
    if (args.corrects) {
      master[i] -= correction;
      change[i] += correction;
    }
    if (args.clears) diff[i] = 0;
    if (args.refresh) replica[i] = master[i];
    if (args.rounds) static_cast<T*>(rounded)[i] = master[i];
  }
}

}  // namespace reference

OMNI_CODELET(ExchangeTaskArgs, exchange);  // of every parameter {master RW, diff RW, velocity RW,
                                           // replica W if refresh, mean_square RW if adam,
                                           // centre R and change RW if corrects, copy in bf16 W
                                           // if rounds};
                                           // diff R if it is not cleared

// ExchangeTensors are the tensors of one parameter.
struct ExchangeTensors {
  const Tensor &master, &diff, &velocity;
  const Tensor* replica = nullptr;
  const Tensor* mean_square = nullptr;  // null: not Adam
  const Tensor* centre = nullptr;       // cut into the master's parts; null: no pull
  const Tensor* change = nullptr;       // of the centre; all groups add to it
};

// Groups update a master copy in the order in which they submit, or in which their gradients
// arrive.
enum class ExchangeOrder { submission, arrival };

struct Exchange {
  ExchangeArgs args;
  ExchangeTensors tensors;
  // If `only` is set, only this part is updated. It is a part of a tensor that is cut like the
  // master copy. Any of the tensors may have no other values.
  std::optional<TensorPart> only{};
};

// Submits updates. Consecutive small parameters share a task, as far as a task may have their
// buffers. Larger ones have a task per part; their tensors are cut into the same parts. In a
// TaskChain all parameters share calls.
void submit_exchanges(std::span<const Exchange> exchanges, ExchangeOrder order, TaskTag tag = {});

// Notes the version of a merged parameter that the group reads at this point of its tasks' order.
// It submits no task, because a task on a core would fetch the parameter from a GPU without need.
void note_read(SeenVersion& seen, const Tensor& master);

// The following types make the step of one value, on cores and GPUs. Their constructors compute
// what all values share.

struct MomentumStep {
  static constexpr bool kSquares = false;  // there is no mean square
  float learning_rate, momentum, decay, gradient_scale;

  explicit MomentumStep(const ExchangeArgs& args)
      : learning_rate(args.learning_rate),
        momentum(args.momentum),
        decay(args.decay),
        gradient_scale(args.gradient_scale) {}

  OMNI_HD void operator()(float& master, float diff, float& velocity) const {
    const float gradient = gradient_scale * diff + decay * master;
    velocity = momentum * velocity + gradient;
    master -= learning_rate * velocity;
  }
};

struct AdamStep {
  static constexpr bool kSquares = true;
  float rate, momentum, decay, gradient_scale, square_memory, square_scale, epsilon;

  explicit AdamStep(const ExchangeArgs& args)
      : rate(static_cast<float>(args.learning_rate / bias_correction(args.momentum, args.number))),
        momentum(args.momentum),
        decay(args.decay),
        gradient_scale(args.gradient_scale),
        square_memory(args.square_memory),
        square_scale(static_cast<float>(1 / bias_correction(args.square_memory, args.number))),
        epsilon(args.epsilon * args.gradient_scale) {
    if (args.rule == StepRule::rated) epsilon *= std::sqrt(square_scale);
  }

  OMNI_HD void operator()(float& master, float diff, float& velocity, float& mean_square) const {
    const float gradient = gradient_scale * diff + decay * master;
    velocity = momentum * velocity + (1 - momentum) * gradient;
    mean_square = square_memory * mean_square + (1 - square_memory) * gradient * gradient;
    master -= rate * velocity / (std::sqrt(square_scale * mean_square) + epsilon);
  }
};

// RuleStep is the base of all steps but MomentumStep and AdamStep.
struct RuleStep {
  static constexpr bool kSquares = false;
  float rate, momentum, decay, sign_decay, gradient_scale, square_memory, epsilon;

  explicit RuleStep(const ExchangeArgs& args)
      : rate(args.learning_rate),
        momentum(args.momentum),
        decay(args.by_sign ? 0 : args.decay),
        sign_decay(args.by_sign ? args.decay : 0),
        gradient_scale(args.gradient_scale),
        square_memory(args.square_memory),
        epsilon(args.epsilon * args.gradient_scale) {}

  OMNI_HD float gradient(float master, float diff) const {
    // Compilers vectorise this difference, but no nested conditions. Signs of weights are random, so
    // branches would be mispredicted.
    const float sign = static_cast<float>(master > 0) - static_cast<float>(master < 0);
    return gradient_scale * diff + decay * master + sign_decay * sign;
  }
};

struct RatedStep : RuleStep {
  using RuleStep::RuleStep;
  OMNI_HD void operator()(float& master, float diff, float& velocity) const {
    velocity = momentum * velocity + rate * gradient(master, diff);
    master -= velocity;
  }
};

struct NesterovStep : RuleStep {
  using RuleStep::RuleStep;
  OMNI_HD void operator()(float& master, float diff, float& velocity) const {
    const float old = velocity;
    velocity = momentum * velocity + rate * gradient(master, diff);
    master -= (1 + momentum) * velocity - momentum * old;
  }
};

// RootStep is the step of AdaGrad and RMSProp. `momentum` is the share of the old squares, and
// `square_memory` that of the new one. The step has no separate number for this, because the steps
// of many parameters are arguments of one launch on a GPU. Arguments may have 4096 bytes at most.
struct RootStep : RuleStep {
  explicit RootStep(const ExchangeArgs& args) : RuleStep(args) {
    momentum = args.rule == StepRule::rmsprop ? args.square_memory : 1;
    square_memory = args.rule == StepRule::rmsprop ? 1 - args.square_memory : 1;
  }
  OMNI_HD void operator()(float& master, float diff, float& velocity) const {
    const float g = gradient(master, diff);
    velocity = momentum * velocity + square_memory * g * g;
    master -= rate * g / (std::sqrt(velocity) + epsilon);
  }
};

struct AdaDeltaStep : RuleStep {
  static constexpr bool kSquares = true;
  using RuleStep::RuleStep;
  OMNI_HD void operator()(float& master, float diff, float& velocity, float& mean_square) const {
    const float g = gradient(master, diff);
    mean_square = momentum * mean_square + (1 - momentum) * g * g;
    const float change = g * std::sqrt((velocity + epsilon) / (mean_square + epsilon));
    velocity = momentum * velocity + (1 - momentum) * change * change;
    master -= rate * change;
  }
};

// Calls use(step) with the step that the arguments select.
void use_step_of(const ExchangeArgs& args, auto use) {
  switch (args.rule) {
    case StepRule::nesterov: return use(NesterovStep(args));
    case StepRule::adagrad:
    case StepRule::rmsprop: return use(RootStep(args));
    case StepRule::adadelta: return use(AdaDeltaStep(args));
    case StepRule::usual:
    case StepRule::rated: break;
  }
  if (args.adam) return use(AdamStep(args));
  if (args.rule == StepRule::rated) return use(RatedStep(args));
  use(MomentumStep(args));
}

// Updates `count` values. Only some steps use the mean square.
template <class Step>
void update_values(const Step& step, std::int64_t count, bool clears, float* __restrict master,
                   float* __restrict diff, float* __restrict velocity,
                   float* __restrict mean_square) {
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (Step::kSquares)
      step(master[i], diff[i], velocity[i], mean_square[i]);
    else
      step(master[i], diff[i], velocity[i]);
    if (clears) diff[i] = 0;
  }
}

}  // namespace omni
