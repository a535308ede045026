#include "scheduling/policy/omni_policy.hpp"

#include <starpu.h>
#include <starpu_scheduler.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "scheduling/policy/foresight.hpp"
#include "scheduling/policy/placement.hpp"
#include "scheduling/policy/ready_queue.hpp"
#include "scheduling/policy/task_lengths.hpp"

namespace omni {
namespace {

// Workers that are equals: of one type, beside one memory. They take their work from one queue, so
// that none idles while another has a backlog, whatever the performance models predicted.
struct WorkerKind {
  starpu_worker_archtype type;
  unsigned node;
  std::vector<unsigned> workers;
  ReadyQueue ready;
  bool may_help = false;  // another kind has got a task that these would have finished first
  Foresight foresight{};  // only where there are several kinds
};

// What a worker has taken and not finished; StarPU lets one of a GPU take the next task early.
struct WorkerLoad {
  int tasks = 0;
  double until = 0;  // when they are expected to be done, in starpu_timing_now()'s microseconds
};

// StarPU's own: all threads of a simulated machine are one, which a std::mutex would block.
class Mutex {
 public:
  Mutex() { starpu_pthread_mutex_init(&mutex_, nullptr); }
  ~Mutex() { starpu_pthread_mutex_destroy(&mutex_); }
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() { starpu_pthread_mutex_lock(&mutex_); }
  void unlock() { starpu_pthread_mutex_unlock(&mutex_); }

 private:
  starpu_pthread_mutex_t mutex_;
};

// Of one scheduling context.
struct Context {
  Mutex mutex;
  std::deque<WorkerKind> kinds;
  std::array<WorkerLoad, STARPU_NMAXWORKERS> loads{};
  Placement placement;
  const double start = starpu_timing_now();

  WorkerKind& kind_of(unsigned worker) {
    const auto type = starpu_worker_get_type(static_cast<int>(worker));
    const unsigned node = starpu_worker_get_memory_node(worker);
    for (WorkerKind& kind : kinds)
      if (kind.type == type && kind.node == node) return kind;
    return kinds.emplace_back(
        WorkerKind{.type = type, .node = node, .workers = {}, .ready = {}, .may_help = false});
  }

  // Until a worker of this kind is free for one more task of this priority.
  double wait_for(const WorkerKind& kind, int priority, double now) const {
    double left = kind.ready.length_before(priority);
    bool one_is_free = false;
    for (const unsigned worker : kind.workers) {
      if (loads[worker].tasks > 0) left += std::max(0.0, loads[worker].until - now);
      one_is_free = one_is_free || loads[worker].tasks == 0;
    }
    return kind.ready.empty() && one_is_free ? 0 : left / static_cast<double>(kind.workers.size());
  }
};

Context& context_of(unsigned id) {
  return *static_cast<Context*>(starpu_sched_ctx_get_policy_data(id));
}

// StarPU holds the calling worker's own mutex around policy functions. Relaxed, it may be let go
// while we wait, which is what keeps two workers that push to each other from waiting for ever.
class Relaxed {
 public:
  Relaxed() { starpu_worker_relax_on(); }
  ~Relaxed() { starpu_worker_relax_off(); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;
};

class RelaxedLock {
 public:
  explicit RelaxedLock(Mutex& mutex) : mutex_(mutex) {
    const Relaxed relaxed;
    mutex_.lock();
  }
  ~RelaxedLock() { mutex_.unlock(); }
  RelaxedLock(const RelaxedLock&) = delete;
  RelaxedLock& operator=(const RelaxedLock&) = delete;

 private:
  Mutex& mutex_;
};

constexpr int kLeastPriority = std::numeric_limits<int>::min();

void init(unsigned id) {
  starpu_sched_ctx_set_policy_data(id, new Context);
  // Without them StarPU takes every priority for 0.
  starpu_sched_ctx_set_min_priority(id, kLeastPriority);
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
void wake_one(const std::vector<unsigned>& workers, NamedWorkers named) {
  for (const unsigned each : workers) {
    const auto worker = static_cast<int>(each);
    if (worker != starpu_worker_get_id() && named.contains(worker) &&
        starpu_wake_worker_relax_light(worker) != 0)
      return;
  }
}

struct Place {
  WorkerKind* kind;
  double length;                 // us
  WorkerKind* helper = nullptr;  // may take the task over
};

// Others may run a task of a busy kind of workers, when they have fetched its data, run it and
// brought the data back before that kind would be done with it. And the links must not get to do
// more than the busy workers are spared.
bool pays_to_help(const Candidate& helper, double length_there, double done_there) {
  return helper.transfer <= length_there && 2 * helper.transfer + helper.length < done_there;
}

Foresight::Sort sort_of(const starpu_task& task) { return {task.cl, task.priority}; }

// Others wait for the data that a commuting task holds, so it shall not be held for long.
double expected_work(const WorkerKind& kind, const starpu_task& task, double ready_work) {
  for (int i = 0; i < task.nbuffers; ++i)
    if ((task.modes[i] & STARPU_COMMUTE) != 0) return ready_work;
  return kind.foresight.expected(sort_of(task), ready_work);
}

// Where several kinds of workers are, it is decided when the task gets ready, so that its data can
// travel while it waits. The context is locked.
Place choose_place(Context& context, starpu_task* task) {
  const double now = starpu_timing_now();
  std::vector<Candidate> candidates;
  std::vector<WorkerKind*> kinds;
  for (WorkerKind& kind : context.kinds) {
    const auto length = best_length(task, kind.workers);
    if (!length) continue;
    const double transfer = transfer_length(*task, kind.node);
    // Where its data are it runs before what is less urgent; who fetches it displaces other work.
    const int before = transfer > 0 ? kLeastPriority : task->priority;
    candidates.push_back({.wait = expected_work(kind, *task, context.wait_for(kind, before, now)),
                          .transfer = transfer,
                          .length = *length,
                          .guess = guess_length(*task, kind.type)});
    kinds.push_back(&kind);
  }
  if (kinds.empty()) return {&context.kinds.front(), 0};  // StarPU let it pass: it will say why not
  const std::size_t chosen = context.placement.choose(candidates, now - context.start);
  const Candidate& candidate = candidates[chosen];
  Place place{kinds[chosen], std::isnan(candidate.length) ? candidate.guess : candidate.length};
  const double ready_work = context.wait_for(*place.kind, kLeastPriority, now);
  if (ready_work > 0) place.kind->foresight.note(sort_of(*task), ready_work);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i == chosen || !kinds[i]->ready.empty() ||
        !pays_to_help(candidates[i], place.length, ready_work))
      continue;
    place.helper = kinds[i];
    place.helper->may_help = true;
  }
  return place;
}

int push(starpu_task* task) {
  Context& context = context_of(task->sched_ctx);
  const NamedWorkers named(*task);
  Place place{&context.kinds.front(), 0};
  if (context.kinds.size() > 1) {
    {
      const RelaxedLock lock(context.mutex);
      place = choose_place(context, task);
    }
    if (starpu_get_prefetch_flag() != 0) {
      const Relaxed relaxed;  // whoever uses the data has them locked, and may wait for us
      starpu_prefetch_task_input_on_node_prio(task, place.kind->node, task->priority);
    }
  }
  {
    const RelaxedLock lock(context.mutex);
    place.kind->ready.push({task, starpu_worker_get_id(), place.length}, task->priority);
    starpu_push_task_end(task);
  }
  wake_one(place.kind->workers, named);
  if (place.helper != nullptr) wake_one(place.helper->workers, named);
  return 0;
}

// A task of another kind of workers that this one will have finished before. An idle worker takes
// the one that the others would run last, after all that is ready; a busy one only what is more
// urgent than all that waits for its own kind. The context is locked.
std::optional<ReadyTask> help(Context& context, WorkerKind& own, unsigned worker, bool idle) {
  const double now = starpu_timing_now();
  for (WorkerKind& busy : context.kinds) {
    if (&busy == &own || busy.ready.empty()) continue;
    double length = 0;
    const auto pays = [&](starpu_task* task) {
      if (starpu_worker_can_execute_task_impl(worker, task, nullptr) == 0) return false;
      length = best_length(task, own.workers).value_or(std::nan(""));
      const double there = best_length(task, busy.workers).value_or(std::nan(""));
      const double done = idle ? context.wait_for(busy, kLeastPriority, now)
                               : context.wait_for(busy, task->priority, now) + there;
      return pays_to_help({.transfer = transfer_length(*task, own.node), .length = length}, there,
                          done);
    };
    auto ready =
        idle ? busy.ready.pop_last(pays) : busy.ready.pop_above(own.ready.highest_priority(), pays);
    if (!ready) continue;
    ready->length = length;
    return ready;
  }
  if (idle) own.may_help = false;
  return std::nullopt;
}

starpu_task* pop(unsigned id) {
  Context& context = context_of(id);
  const auto worker = static_cast<unsigned>(starpu_worker_get_id_check());
  std::optional<ReadyTask> ready;
  {
    const RelaxedLock lock(context.mutex);
    WorkerKind& kind = context.kind_of(worker);
    const bool several = context.kinds.size() > 1;
    if (several && !kind.ready.empty()) ready = help(context, kind, worker, false);
    if (!ready) {
      ready = kind.ready.pop(static_cast<int>(worker), [worker](starpu_task* each) {
        return starpu_worker_can_execute_task_impl(worker, each, nullptr) != 0;
      });
      if (!ready)
        kind.foresight.ran_empty();
      else if (several)
        kind.foresight.began(sort_of(*ready->task),
                             ready->length / static_cast<double>(kind.workers.size()));
    }
    if (!ready && kind.may_help) ready = help(context, kind, worker, true);
    if (!ready) return nullptr;
    if (context.kinds.size() > 1) {
      WorkerLoad& load = context.loads[worker];
      load.until = (load.tasks++ > 0 ? load.until : starpu_timing_now()) + ready->length;
    }
  }
  if (const auto choice = choose_implementation(ready->task, worker)) {
    starpu_task_set_implementation(ready->task, choice->implementation);
    ready->task->predicted = choice->length;
  }
  return ready->task;
}

void finished(starpu_task*, unsigned id) {
  Context& context = context_of(id);
  if (context.kinds.size() == 1) return;
  const RelaxedLock lock(context.mutex);
  WorkerLoad& load = context.loads[static_cast<unsigned>(starpu_worker_get_id_check())];
  load.tasks = std::max(0, load.tasks - 1);  // a task bound to this worker never was in the queue
}

void add_workers(unsigned id, int* workers, unsigned count) {
  Context& context = context_of(id);
  for (unsigned i = 0; i < count; ++i) {
    const auto worker = static_cast<unsigned>(workers[i]);
    {
      const RelaxedLock lock(context.mutex);
      context.kind_of(worker).workers.push_back(worker);
    }
    if (workers[i] != starpu_worker_get_id()) starpu_wake_worker_locked(workers[i]);
    starpu_sched_ctx_worker_shares_tasks_lists(workers[i], static_cast<int>(id));
  }
}

// What waits for a kind that has no worker left goes to another one, whose workers may be asleep.
void remove_workers(unsigned id, int* workers, unsigned count) {
  Context& context = context_of(id);
  std::vector<unsigned> wake;
  {
    const RelaxedLock lock(context.mutex);
    for (unsigned i = 0; i < count; ++i) {
      const auto worker = static_cast<unsigned>(workers[i]);
      WorkerKind& kind = context.kind_of(worker);
      std::erase(kind.workers, worker);
      if (!kind.workers.empty()) continue;
      std::vector<ReadyTask> left;
      while (auto ready = kind.ready.pop(-1, [](starpu_task*) { return true; }))
        left.push_back(*ready);
      for (const ReadyTask& each : left) {
        const Place place = choose_place(context, each.task);
        place.kind->ready.push({each.task, -1, place.length}, each.task->priority);
        wake.insert(wake.end(), place.kind->workers.begin(), place.kind->workers.end());
      }
    }
  }
  for (const unsigned worker : wake) starpu_wake_worker_relax_light(static_cast<int>(worker));
}

starpu_sched_policy make_policy() {
  starpu_sched_policy policy{};
  policy.init_sched = init;
  policy.deinit_sched = deinit;
  policy.push_task = push;
  policy.pop_task = pop;
  policy.post_exec_hook = finished;
  policy.add_workers = add_workers;
  policy.remove_workers = remove_workers;
  policy.prefetches = 1;  // it does, so StarPU must not
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
