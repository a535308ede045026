// The update of parameters: a compute group hands its gradient to the master copy, one step of
// stochastic gradient descent with momentum and weight decay, and takes the result back:
//   g = gradient_scale * diff + decay * master
//   velocity = momentum * velocity + g
//   master -= learning_rate * velocity
//   diff = 0, ready for the next iteration to add to, unless that writes it
//   replica = master, where the group computes with a copy of its own
//   rounded = master, where products are of weights in bf16
// Where groups average their models (SMA), `master` is the group's own model, and the step also
// pulls it towards the centre. All right-hand sides are values of before the step:
//   correction = pull * (master - centre);  master -= correction;  change += correction
// or one step of Adam, Darknet's (decay is part of the gradient):
//   velocity = momentum * velocity + (1 - momentum) * g
//   mean_square = square_memory * mean_square + (1 - square_memory) * g * g
//   master -= learning_rate * velocity / (1 - momentum^number)
//             / (sqrt(mean_square / (1 - square_memory^number)) + epsilon * gradient_scale)
// where the powers take away that both means started from 0, and the last factor is there because
// Darknet's g is a sum over the images.
// With one group, or in the merged phase, there is no replica: the layers read the master itself.
//
// The rate is outside the velocity, as in Darknet. Caffe's velocity contains it; that is the same
// while the rate is constant, and differs for 1/(1-momentum) iterations after a change of rate.
#pragma once

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

// How often a master copy has been updated, counted while an exchange has it to itself.
using UpdateCount = std::atomic<std::int64_t>;

// The version of a parameter that a group computes with: the count of updates when it read them.
struct SeenVersion {
  UpdateCount* count = nullptr;
  std::atomic<std::int64_t> version{0};
};

// Of one iteration of one group, filled in by its exchanges. `done` is called by the last of them,
// in a worker's thread.
struct UpdateReport {
  std::atomic<int> left{0};                   // exchanges to come
  std::atomic<std::int64_t> staleness{0};     // updates by others since the group read the first
                                              // replicated parameter (the one it holds longest)
  std::atomic<std::int64_t> fc_staleness{0};  // the most among the merged parameters
  void (*done)(UpdateReport&, void*) = nullptr;
  void* argument = nullptr;

  void count_down() {
    if (--left == 0) done(*this, argument);
  }
};

// Which staleness an exchange reports: none, when the parameter is not watched.
enum class Staleness : std::uint8_t { unwatched, replicated, merged };

struct ExchangeArgs {
  std::int64_t count = 0;  // of values; set by the submit function
  float learning_rate = 0;
  float momentum = 0;
  float decay = 0;
  float gradient_scale = 1;  // 1 / batch: diffs are sums over the images
  bool refresh = false;      // there is a replica; set by the submit function
  bool adam = false;         // there is a mean square; set by the submit function
  float square_memory = 0.999f, epsilon = 1e-7f;  // of Adam
  std::uint64_t number = 1;                       // of Adam: of the update, from 1
  bool clears = true;                             // the gradient
  Staleness reports = Staleness::unwatched;
  SeenVersion* seen = nullptr;     // null: staleness is not measured
  UpdateReport* report = nullptr;  // null: nobody waits for it
  bool corrects = false;           // there is a centre; set by the submit function
  bool rounds = false;             // there is a copy in bf16; set by the submit function
  float pull = 0;                  // towards the centre

  // Of a parameter that is updated in parts, the first one is counted.
  void leave_uncounted() {
    seen = nullptr;
    reports = Staleness::unwatched;
  }
};

// Count, version and staleness, when a task begins what the arguments say; and its end.
void count_update(const ExchangeArgs& args);
void report_update(const ExchangeArgs& args);

// Parameters that are updated together. Apart, the small ones would be tasks, and launches on a
// GPU, that take longer to give out than to do.
struct ExchangeTaskArgs {
  static constexpr std::size_t kMost = 32;
  static constexpr std::size_t kMostAlone = 3;  // of a task, which may have few buffers: weights,
                                                // scales, biases
  static constexpr std::size_t kMostCorrected = 2;  // likewise, each with two buffers more
  std::array<ExchangeArgs, kMost> each{};
  std::size_t params = 0;

  std::span<const ExchangeArgs> all() const { return std::span(each).first(params); }
};

// The memory of one parameter: among a task's buffers they follow each other.
template <class T>
struct Exchanged {
  T *master, *diff, *velocity;
  T* replica = nullptr;       // none, unless the arguments say refresh
  T* mean_square = nullptr;   // none, unless they say adam
  const T* centre = nullptr;  // none, unless they say corrects
  T* change = nullptr;        // of the centre, likewise
  void* rounded = nullptr;    // Bf16 on a GPU, else T; none, unless they say rounds
};

// use(number, arguments, memory) for every parameter.
template <class T, class Use>
void for_each_exchanged(const ExchangeTaskArgs& args, const Buffers& buffers, Use use) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < args.params; ++i) {
    const ExchangeArgs& one = args.each[i];
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

// The weights of all gradients in a running mean that started from 0 add up to this.
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
    const T gradient = gradient_scale * diff[i] + static_cast<T>(args.decay) * master[i];
    if (args.adam) {
      velocity[i] = momentum * velocity[i] + (1 - momentum) * gradient;
      mean_square[i] = square_memory * mean_square[i] + (1 - square_memory) * gradient * gradient;
      const T mean = velocity[i] / weight_of_mean, square = mean_square[i] / weight_of_square;
      master[i] -=
          rate * mean / (std::sqrt(square) + static_cast<T>(args.epsilon) * gradient_scale);
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

// Of one parameter.
struct ExchangeTensors {
  const Tensor &master, &diff, &velocity;
  const Tensor* replica = nullptr;
  const Tensor* mean_square = nullptr;  // null: not Adam
  const Tensor* centre = nullptr;       // null: nothing pulls; cut like the master
  const Tensor* change = nullptr;       // of the centre; many groups add to it
};

// The order in which groups reach a master: as submitted, or as they arrive.
enum class ExchangeOrder { submission, arrival };

struct Exchange {
  ExchangeArgs args;
  ExchangeTensors tensors;
  std::optional<TensorPart> only{};  // this part, of a tensor that is cut like the master; a
                                     // gradient or a replica may hold it alone
};

// Small ones that follow each other together, as many as a task may have; of the others a task per
// part of the tensors, which are cut alike. In a TaskChain all of them together.
void submit_exchanges(std::span<const Exchange> exchanges, ExchangeOrder order, TaskTag tag = {});

// The group reads a merged parameter, now as far as its tasks are ordered: notes its version,
// wherever the parameter is. A task that reads it could be given to a CPU, and would fetch it from
// a GPU for nothing.
void note_read(SeenVersion& seen, const Tensor& master);

// ---- one value's step, for the loops of the CPU and of the GPU, and those of the CPU. What all
// values have in common is calculated once, in the constructors. ----

struct MomentumStep {
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
  float rate, momentum, decay, gradient_scale, square_memory, square_scale, epsilon;

  explicit AdamStep(const ExchangeArgs& args)
      : rate(static_cast<float>(args.learning_rate / bias_correction(args.momentum, args.number))),
        momentum(args.momentum),
        decay(args.decay),
        gradient_scale(args.gradient_scale),
        square_memory(args.square_memory),
        square_scale(static_cast<float>(1 / bias_correction(args.square_memory, args.number))),
        epsilon(args.epsilon * args.gradient_scale) {}

  OMNI_HD void operator()(float& master, float diff, float& velocity, float& mean_square) const {
    const float gradient = gradient_scale * diff + decay * master;
    velocity = momentum * velocity + (1 - momentum) * gradient;
    mean_square = square_memory * mean_square + (1 - square_memory) * gradient * gradient;
    master -= rate * velocity / (std::sqrt(square_scale * mean_square) + epsilon);
  }
};

// Calls use(step) with what the arguments ask for.
void with_step(const ExchangeArgs& args, auto use) {
  if (args.adam)
    use(AdamStep(args));
  else
    use(MomentumStep(args));
}

// `count` values. The mean square is read only by Adam.
template <class Step>
void update_values(const Step& step, std::int64_t count, bool clears, float* __restrict master,
                   float* __restrict diff, float* __restrict velocity,
                   float* __restrict mean_square) {
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<Step, AdamStep>)
      step(master[i], diff[i], velocity[i], mean_square[i]);
    else
      step(master[i], diff[i], velocity[i]);
    if (clears) diff[i] = 0;
  }
}

}  // namespace omni
