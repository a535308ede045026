// The update of a parameter: a compute group hands its gradient to the master copy, one step of
// stochastic gradient descent with momentum and weight decay, and takes the result back:
//   g = gradient_scale * diff + decay * master
//   velocity = momentum * velocity + g
//   master -= learning_rate * velocity
//   diff = 0, ready for the next iteration to add to
//   replica = master, where the group computes with a copy of its own
// With one group, or in the merged phase, there is no replica: the layers read the master itself.
//
// The rate is outside the velocity, as in Darknet. Caffe's velocity contains it; that is the same
// while the rate is constant, and differs for 1/(1-momentum) iterations after a change of rate.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/tasks/codelet.hpp"

namespace omni {

// How often a master copy has been updated. Only its own exchanges write it, and StarPU runs those
// one at a time; atomic because nothing else tells the compiler so.
using UpdateClock = std::atomic<std::int64_t>;

// What one group knows of one parameter: the clock when it last took the parameter over.
struct Ticket {
  UpdateClock* clock = nullptr;
  std::atomic<std::int64_t> seen{0};
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
};

// Which figure of the report an exchange gives: none, when the parameter is not watched.
enum class Staleness : std::uint8_t { unwatched, replicated, merged };

struct ExchangeArgs {
  std::int64_t count = 0;  // set by the submit function
  float learning_rate = 0;
  float momentum = 0;
  float decay = 0;
  float gradient_scale = 1;  // 1 / batch: diffs are sums over the images
  bool refresh = false;      // there is a replica; set by the submit function
  Staleness figure = Staleness::unwatched;
  Ticket* ticket = nullptr;        // null: staleness is not measured
  UpdateReport* report = nullptr;  // null: nobody waits for it
};

namespace reference {

template <class T>
void exchange(const ExchangeArgs& args, T* master, T* diff, T* velocity, T* replica) {
  for (std::int64_t i = 0; i < args.count; ++i) {
    const T gradient =
        static_cast<T>(args.gradient_scale) * diff[i] + static_cast<T>(args.decay) * master[i];
    velocity[i] = static_cast<T>(args.momentum) * velocity[i] + gradient;
    master[i] -= static_cast<T>(args.learning_rate) * velocity[i];
    diff[i] = 0;
    if (args.refresh) replica[i] = master[i];
  }
}

}  // namespace reference

extern Codelet<ExchangeArgs> exchange;  // {master RW, diff RW, velocity RW, replica W if refresh}

struct ExchangeTensors {
  const Tensor &master, &diff, &velocity;
  const Tensor* replica = nullptr;
};

// The order in which groups reach a master: as submitted, or as they arrive.
enum class ExchangeOrder { submission, arrival };

// A task per part of the tensors, which are cut alike. The ticket counts the first part.
void submit_exchange(ExchangeArgs args, const ExchangeTensors& tensors, ExchangeOrder order,
                     TaskTag tag = {});

// The group reads a merged parameter, now as far as its tasks are ordered: notes the clock in the
// ticket.
void submit_read_note(Ticket& ticket, const Tensor& master, TaskTag tag = {});

}  // namespace omni
