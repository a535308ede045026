#include "scheduling/policy/omni_policy.hpp"

#include <starpu.h>
#include <starpu_scheduler.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <span>

#include "scheduling/policy/ready_queue.hpp"

namespace omni {
namespace {

// Of one scheduling context.
struct Context {
  std::mutex mutex;
  ReadyQueue ready;
};

Context& context_of(unsigned id) {
  return *static_cast<Context*>(starpu_sched_ctx_get_policy_data(id));
}

// StarPU holds the calling worker's own mutex around policy functions. Relaxed, it may be let go
// while we wait, which is what keeps two workers that push to each other from waiting for ever.
class RelaxedLock {
 public:
  explicit RelaxedLock(std::mutex& mutex) : lock_(mutex, std::defer_lock) {
    starpu_worker_relax_on();
    lock_.lock();
    starpu_worker_relax_off();
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

struct Choice {
  unsigned implementation;
  double length;  // us; NaN: the model is not sure yet
};

// A model learns only about what runs: an implementation that was first measured while others used
// the machine would be passed over for ever. So one choice in kSecondLooks goes to another one that
// seems at most kWorthALook times as slow. With the usual two or three, that costs well below 1 %.
constexpr std::uint64_t kSecondLooks = 200;
constexpr double kWorthALook = 4;

// The implementation with the smallest expected length; one that the model does not know yet comes
// first, so that it gets known.
std::optional<Choice> choose_implementation(starpu_task* task, unsigned worker) {
  thread_local std::uint64_t choices = 0;
  unsigned mask = 0;
  if (starpu_worker_can_execute_task_impl(worker, task, &mask) == 0) return std::nullopt;
  std::array<Choice, STARPU_MAXIMPLEMENTATIONS> known;
  std::size_t count = 0, best = 0;
  for (unsigned implementation = 0; mask >> implementation != 0; ++implementation) {
    if ((mask >> implementation & 1u) == 0) continue;
    const double length =
        starpu_task_worker_expected_length(task, worker, task->sched_ctx, implementation);
    if (std::isnan(length)) return Choice{implementation, length};
    known[count] = {implementation, length};
    if (length < known[best].length) best = count;
    ++count;
  }
  if (++choices % kSecondLooks != 0) return known[best];
  const std::size_t other = choices / kSecondLooks % count;  // in turn, the best one too
  return known[known[other].length < kWorthALook * known[best].length ? other : best];
}

void init(unsigned id) {
  starpu_sched_ctx_set_policy_data(id, new Context);
  // Without them StarPU takes every priority for 0.
  starpu_sched_ctx_set_min_priority(id, std::numeric_limits<int>::min());
  starpu_sched_ctx_set_max_priority(id, std::numeric_limits<int>::max());
}

void deinit(unsigned id) { delete &context_of(id); }

// The workers that a task names, copied before it is pushed: then it may be run and gone at any
// time. The masks themselves outlive it (WorkerSet).
struct NamedWorkers {
  explicit NamedWorkers(const starpu_task& task) : bits(task.workerids, task.workerids_len) {}
  bool contains(int worker) const {
    const auto number = static_cast<std::size_t>(worker);
    return bits.empty() || (number / 32 < bits.size() && ((bits[number / 32] >> number % 32) & 1));
  }
  std::span<const std::uint32_t> bits;  // none: all workers
};

// A worker of these that is asleep is woken; the others will come by themselves.
void wake_one(unsigned id, NamedWorkers named) {
  starpu_worker_collection* workers = starpu_sched_ctx_get_worker_collection(id);
  starpu_sched_ctx_iterator each;
  workers->init_iterator(workers, &each);
  while (workers->has_next(workers, &each) != 0) {
    const auto worker = static_cast<int>(workers->get_next(workers, &each));
    if (worker != starpu_worker_get_id() && named.contains(worker) &&
        starpu_wake_worker_relax_light(worker) != 0)
      return;
  }
}

int push(starpu_task* task) {
  const unsigned id = task->sched_ctx;
  Context& context = context_of(id);
  const NamedWorkers named(*task);
  {
    const RelaxedLock lock(context.mutex);
    context.ready.push(task, task->priority, starpu_worker_get_id());
    starpu_push_task_end(task);
  }
  wake_one(id, named);
  return 0;
}

starpu_task* pop(unsigned id) {
  Context& context = context_of(id);
  const auto worker = static_cast<unsigned>(starpu_worker_get_id_check());
  starpu_task* task = nullptr;
  {
    const RelaxedLock lock(context.mutex);
    task = context.ready.pop(static_cast<int>(worker), [worker](starpu_task* each) {
      return starpu_worker_can_execute_task_impl(worker, each, nullptr) != 0;
    });
  }
  if (task == nullptr) return nullptr;
  if (const auto choice = choose_implementation(task, worker)) {
    starpu_task_set_implementation(task, choice->implementation);
    task->predicted = choice->length;
  }
  return task;
}

void add_workers(unsigned id, int* workers, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (workers[i] != starpu_worker_get_id()) starpu_wake_worker_locked(workers[i]);
    starpu_sched_ctx_worker_shares_tasks_lists(workers[i], static_cast<int>(id));
  }
}

starpu_sched_policy make_policy() {
  starpu_sched_policy policy{};
  policy.init_sched = init;
  policy.deinit_sched = deinit;
  policy.push_task = push;
  policy.pop_task = pop;
  policy.add_workers = add_workers;
  policy.policy_name = "omni";
  policy.policy_description = "one queue for equal workers, implementations by model";
  policy.worker_type = STARPU_WORKER_LIST;
  return policy;
}

}  // namespace

starpu_sched_policy& omni_policy() {
  static starpu_sched_policy policy = make_policy();
  return policy;
}

}  // namespace omni
