// This program has two scheduling contexts of StarPU, each with our policy. All tasks end while
// workers leave, come back and change contexts. A worker that has left gets no more tasks, and no
// task relies on waking it. Tasks for a worker that has left wait for this worker only.
#include <starpu.h>
#include <starpu_scheduler.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>

#include "scheduling/policy/omni_policy.hpp"

namespace {

int numbers[2] = {0, 1};  // of workers and of contexts
unsigned contexts[2];
int submitted[2];
std::atomic<int> ran[2];
std::atomic<int> crossed;  // tasks of the first context that worker 1 began
std::atomic<int> bound_ran, misplaced;
bool all_well = true;

void count(void*[], void* context) {
  const int number = *static_cast<int*>(context);
  crossed += number == 0 && starpu_worker_get_id() == 1;
  std::this_thread::sleep_for(std::chrono::microseconds(20));
  ++ran[number];
}

void count_bound(void*[], void* worker) {
  ++bound_ran;
  misplaced += starpu_worker_get_id() != *static_cast<int*>(worker);
}

std::atomic<bool> keeping, let_go;

void keep(void*[], void*) {
  keeping = true;
  while (!let_go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

starpu_codelet codelet_of(starpu_cpu_func_t function) {
  starpu_codelet codelet;
  starpu_codelet_init(&codelet);
  codelet.cpu_funcs[0] = function;
  return codelet;
}

starpu_codelet counting = codelet_of(count), bound = codelet_of(count_bound),
               keeping_busy = codelet_of(keep);

void submit(starpu_codelet& codelet, int context, int& argument, std::uint32_t* only) {
  starpu_task* task = starpu_task_create();
  task->cl = &codelet;
  task->cl_arg = &argument;
  task->cl_arg_size = sizeof argument;
  task->workerids = only;
  task->workerids_len = only == nullptr ? 0 : 1;
  all_well = starpu_task_submit_to_ctx(task, contexts[context]) == 0 && all_well;
}

void submit_some(int tasks, int context) {
  for (int i = 0; i < tasks; ++i) submit(counting, context, numbers[context], nullptr);
  submitted[context] += tasks;
}

void join(int worker, int context) {
  starpu_sched_ctx_add_workers(&numbers[worker], 1, contexts[context]);
}

void leave(int worker, int context) {
  starpu_sched_ctx_remove_workers(&numbers[worker], 1, contexts[context]);
}

template <class Reached>
void wait_until(Reached reached) {  // else the test's time runs out
  while (!reached()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void wait_for_some() {
  wait_until([] { return ran[0] == submitted[0] && ran[1] == submitted[1]; });
}

void sides_are_changed() {
  submit_some(2000, 0);
  submit_some(2000, 1);
  for (int moves = 0; moves < 100; ++moves) {
    join(1, 0);
    leave(1, 1);
    join(1, 1);
    leave(1, 0);
  }
  wait_for_some();
  std::printf("changed sides\n");
}

void who_has_left_gets_nothing() {
  join(1, 0);
  submit_some(2000, 0);
  leave(1, 0);
  const int before = crossed;
  wait_for_some();
  const int after = crossed - before;
  std::printf("begun by one that has left: %d\n", after);
  all_well = all_well && after <= 1;  // which it may have taken before
}

void nobody_relies_on_one_that_has_left() {
  join(1, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // both of them find nothing to do
  leave(0, 0);
  submit_some(1, 0);
  wait_for_some();
  join(0, 0);
  leave(1, 0);
}

void what_is_bound_waits() {
  join(1, 0);
  std::uint32_t mask = 1U << numbers[1];
  submit(keeping_busy, 1, numbers[1], nullptr);
  wait_until([] { return keeping.load(); });
  for (int i = 0; i < 100; ++i) submit(bound, 0, numbers[1], &mask);
  leave(1, 0);
  let_go = true;
  submit_some(2000, 0);
  submit_some(2000, 1);
  wait_for_some();
  all_well = all_well && bound_ran == 0;
  join(1, 0);
  wait_until([] { return bound_ran == 100; });
}

}  // namespace

int main() {
  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.ncpus = 2;
  conf.sched_policy = &omni::omni_policy();
  if (starpu_init(&conf) != 0) return 2;
  for (const int number : numbers)
    contexts[number] =
        starpu_sched_ctx_create(&numbers[number], 1, number == 0 ? "first" : "second",
                                STARPU_SCHED_CTX_POLICY_STRUCT, &omni::omni_policy(), 0);
  sides_are_changed();
  who_has_left_gets_nothing();
  nobody_relies_on_one_that_has_left();
  what_is_bound_waits();
  starpu_task_wait_for_all();
  for (const unsigned context : contexts) starpu_sched_ctx_delete(context);
  starpu_shutdown();
  std::printf("misplaced: %d\n", misplaced.load());
  return all_well && misplaced == 0 ? 0 : 1;
}
