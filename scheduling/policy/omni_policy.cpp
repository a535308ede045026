#include "scheduling/policy/omni_policy.hpp"

#include <starpu.h>
#include <starpu_scheduler.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "scheduling/policy/task_lengths.hpp"

namespace omni {
namespace {

// StarPU holds the mutex of the calling worker while it calls the policy. While Relaxed exists,
// StarPU may release that mutex. Otherwise two workers that push tasks to each other would
// deadlock.
class Relaxed {
 public:
  Relaxed() { starpu_worker_relax_on(); }
  ~Relaxed() { starpu_worker_relax_off(); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;
};

// A Mutex is StarPU's mutex. All threads of a machine that StarPU simulates are one real thread,
// which a std::mutex would block.
class Mutex {
 public:
  Mutex() { starpu_pthread_mutex_init(&mutex_, nullptr); }
  ~Mutex() { starpu_pthread_mutex_destroy(&mutex_); }
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() {
    const Relaxed relaxed;
    starpu_pthread_mutex_lock(&mutex_);
  }
  void unlock() { starpu_pthread_mutex_unlock(&mutex_); }

 private:
  starpu_pthread_mutex_t mutex_;
};

// Implementations chooses the implementation of each task. No thread waits while it holds the
// mutex, so a std::mutex suffices.
class Implementations {
 public:
  Choice choose(starpu_task* task, unsigned worker, std::span<const Choice> known) {
    if (known.size() == 1) return known.front();
    const auto model = model_of(task, worker);
    const std::scoped_lock lock(mutex_);
    const auto [choice, paid] = looks_.choose(model, known);
    if (paid) under_way_[task] = {model, choice, starpu_timing_now()};
    any_under_way_ = !under_way_.empty();
    return choice;
  }

  // Notes when the task begins. The time that it waited before does not count.
  void begins(starpu_task* task) {
    if (!any_under_way_) return;
    const std::scoped_lock lock(mutex_);
    if (const auto look = under_way_.find(task); look != under_way_.end())
      look->second.began = starpu_timing_now();
  }

  void finished(starpu_task* task) {
    if (!any_under_way_) return;
    const std::scoped_lock lock(mutex_);
    const auto look = under_way_.extract(task);
    if (look.empty()) return;
    const auto& [model, choice, began] = look.mapped();
    looks_.took(model, choice, starpu_timing_now() - began);
    any_under_way_ = !under_way_.empty();
  }

 private:
  struct Look {
    Exploration::Model model;
    Choice choice;
    double began;
  };
  std::mutex mutex_;
  Exploration looks_;
  std::map<const starpu_task*, Look> under_way_;
  std::atomic<bool> any_under_way_ = false;  // rarely true
};

using TaskDispatcher = Dispatcher<starpu_task*, TaskFacts>;

// A Context is the state of one scheduling context.
struct Context {
  Implementations implementations;
  Mutex mutex;
  TaskDispatcher dispatcher{TaskFacts{}, starpu_timing_now()};
  std::atomic<bool> has_choice = false;  // Dispatcher::has_choice(), for readers without the mutex
};

Context& context_of(unsigned id) {
  return *static_cast<Context*>(starpu_sched_ctx_get_policy_data(id));
}

void init(unsigned id) {
  starpu_sched_ctx_set_policy_data(id, new Context);
  // Without these bounds StarPU uses the priority 0 for all tasks.
  starpu_sched_ctx_set_min_priority(id, std::numeric_limits<int>::min());
  starpu_sched_ctx_set_max_priority(id, std::numeric_limits<int>::max());
}

void deinit(unsigned id) { delete &context_of(id); }

// Sleepers are the workers of a kind that may have to be woken. They are copied under the lock, as
// other threads change the kind's list.
class Sleepers {
 public:
  void note(const std::vector<unsigned>& workers) {
    count_ = workers.size();
    std::ranges::copy(workers, workers_.begin());
  }
  // Wakes one worker that sleeps. Workers that are awake look for tasks by themselves.
  void wake_one(NamedWorkers named) const {
    for (const unsigned each : std::span(workers_).first(count_)) {
      const auto worker = static_cast<int>(each);
      if (worker != starpu_worker_get_id() && named.contains(worker) &&
          starpu_wake_worker_relax_light(worker) != 0)
        return;
    }
  }

 private:
  std::array<unsigned, STARPU_NMAXWORKERS> workers_;
  std::size_t count_ = 0;
};

// Places all waiting tasks again, for the workers that the context has now. Returns the workers to
// wake.
std::vector<unsigned> regroup(Context& context, unsigned id) {
  TaskDispatcher& dispatcher = context.dispatcher;
  std::vector<unsigned> wake;
  for (starpu_task* task : dispatcher.regroup([&](unsigned worker) {
         return starpu_sched_ctx_contains_worker(static_cast<int>(worker), id) != 0;
       })) {
    const auto place = dispatcher.place(task, starpu_timing_now());
    dispatcher.push(place, task, -1);
    wake.insert(wake.end(), place.kind->workers.begin(), place.kind->workers.end());
  }
  return wake;
}

void wake_all(const std::vector<unsigned>& workers) {
  for (const unsigned worker : workers) starpu_wake_worker_relax_light(static_cast<int>(worker));
}

int push(starpu_task* task) {
  Context& context = context_of(task->sched_ctx);
  TaskDispatcher& dispatcher = context.dispatcher;
  const NamedWorkers named(*task);
  std::optional<TaskDispatcher::Place> place;
  if (context.has_choice) {
    {
      const std::scoped_lock lock(context.mutex);
      place = dispatcher.place(task, starpu_timing_now());
    }
    if (starpu_get_prefetch_flag() != 0) {
      const Relaxed relaxed;  // a task that uses the data has it locked, and may wait for this one
      starpu_prefetch_task_input_on_node_prio(task, place->kind->node, task->priority);
      if (place->returns) return_updates(*task, place->kind->node);
    }
  }
  Sleepers of_the_kind, helpers;
  {
    const std::scoped_lock lock(context.mutex);
    // If all workers of the chosen kind have left meanwhile, no worker would look into its queue.
    // So the task is placed again.
    if (!place || place->kind->workers.empty()) place = dispatcher.place(task, starpu_timing_now());
    dispatcher.push(*place, task, starpu_worker_get_id());
    of_the_kind.note(place->kind->workers);
    if (place->helper != nullptr) helpers.note(place->helper->workers);
    starpu_push_task_end(task);
  }
  of_the_kind.wake_one(named);
  helpers.wake_one(named);
  return 0;
}

starpu_task* pop(unsigned id) {
  Context& context = context_of(id);
  const auto worker = static_cast<unsigned>(starpu_worker_get_id_check());
  std::optional<ReadyTask<starpu_task*>> ready;
  std::vector<unsigned> moved;
  {
    const std::scoped_lock lock(context.mutex);
    // StarPU does not tell the policy which workers have left the context. So each call for a task
    // checks whether their number has changed.
    if (context.dispatcher.worker_count() != starpu_sched_ctx_get_nworkers(id))
      moved = regroup(context, id);
    ready = context.dispatcher.pop(worker, starpu_timing_now());
  }
  wake_all(moved);
  if (!ready) return nullptr;
  Choices room;
  if (const auto known = known_implementations(ready->task, worker, room); !known.empty()) {
    const Choice choice = context.implementations.choose(ready->task, worker, known);
    starpu_task_set_implementation(ready->task, choice.implementation);
    ready->task->predicted = choice.length;
  }
  return ready->task;
}

void begins(starpu_task* task, unsigned id) { context_of(id).implementations.begins(task); }

void finished(starpu_task* task, unsigned id) {
  Context& context = context_of(id);
  context.implementations.finished(task);
  if (!context.has_choice) return;
  const std::scoped_lock lock(context.mutex);
  context.dispatcher.finished(static_cast<unsigned>(starpu_worker_get_id_check()),
                              starpu_timing_now());
}

void add_workers(unsigned id, int* workers, unsigned count) {
  Context& context = context_of(id);
  std::vector<unsigned> moved;
  {
    const std::scoped_lock lock(context.mutex);
    for (const int each : std::span(workers, count)) {
      const auto worker = static_cast<unsigned>(each);
      context.dispatcher.add_worker(worker, starpu_worker_get_type(each),
                                    starpu_worker_get_memory_node(worker));
    }
    context.has_choice = context.dispatcher.has_choice();
    moved = regroup(context, id);
  }
  for (const int each : std::span(workers, count))
    if (each != starpu_worker_get_id()) starpu_wake_worker_locked(each);
  wake_all(moved);
}

starpu_sched_policy make_policy() {
  starpu_sched_policy policy{};
  policy.init_sched = init;
  policy.deinit_sched = deinit;
  policy.push_task = push;
  policy.pop_task = pop;
  policy.pre_exec_hook = begins;
  policy.post_exec_hook = finished;
  policy.add_workers = add_workers;
  policy.prefetches = 1;  // the policy prefetches, so StarPU must not
  policy.policy_name = "omni";
  policy.policy_description = "earliest finish by model, one queue for equal workers";
  policy.worker_type = STARPU_WORKER_LIST;
  return policy;
}

}  // namespace

starpu_sched_policy& omni_policy() {
  static starpu_sched_policy policy = make_policy();
  return policy;
}

}  // namespace omni
