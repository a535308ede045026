// Two scheduling contexts of StarPU with our policy each: tasks of both run to the end while
// workers leave, come back and change sides, and tasks that want a worker that has left wait for it
// and for nobody else.
#include <starpu.h>
#include <starpu_scheduler.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>

#include "scheduling/policy/omni_policy.hpp"

namespace {

std::atomic<int> ran[2];  // tasks, of both contexts
std::atomic<int> bound_ran, misplaced;

void count(void*[], void* context) {
  ++ran[*static_cast<int*>(context)];
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void count_bound(void*[], void* worker) {
  ++bound_ran;
  misplaced += starpu_worker_get_id() != *static_cast<int*>(worker);
}

starpu_codelet codelet_of(starpu_cpu_func_t function) {
  starpu_codelet codelet;
  starpu_codelet_init(&codelet);
  codelet.cpu_funcs[0] = function;
  return codelet;
}

starpu_codelet counting = codelet_of(count), bound = codelet_of(count_bound);

bool submit(starpu_codelet& codelet, unsigned context, int& argument, std::uint32_t* workers) {
  starpu_task* task = starpu_task_create();
  task->cl = &codelet;
  task->cl_arg = &argument;
  task->cl_arg_size = sizeof argument;
  task->workerids = workers;
  task->workerids_len = workers == nullptr ? 0 : 1;
  return starpu_task_submit_to_ctx(task, context) == 0;
}

unsigned context_of(const char* name, int worker) {
  return starpu_sched_ctx_create(&worker, 1, name, STARPU_SCHED_CTX_POLICY_STRUCT,
                                 &omni::omni_policy(), 0);
}

template <class Reached>
void wait_until(Reached reached) {  // else the test's time runs out
  while (!reached()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

int main() {
  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.ncpus = 2;
  conf.sched_policy = &omni::omni_policy();
  if (starpu_init(&conf) != 0) return 2;
  constexpr int kTasks = 2000;
  int numbers[2] = {0, 1}, workers[2] = {0, 1};
  const unsigned contexts[2] = {context_of("first", 0), context_of("second", 1)};
  bool submitted = true;
  const auto submit_some = [&] {
    for (int i = 0; i < kTasks; ++i)
      for (const int each : numbers)
        submitted = submit(counting, contexts[each], numbers[each], nullptr) && submitted;
  };

  submit_some();
  for (int moves = 0; moves < 20; ++moves) {  // while they run
    starpu_sched_ctx_add_workers(&workers[1], 1, contexts[0]);
    starpu_sched_ctx_remove_workers(&workers[1], 1, contexts[1]);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    starpu_sched_ctx_add_workers(&workers[1], 1, contexts[1]);
    starpu_sched_ctx_remove_workers(&workers[1], 1, contexts[0]);
  }
  wait_until([&] { return ran[0] == kTasks && ran[1] == kTasks; });
  std::printf("changed sides\n");

  // What is bound to a worker that leaves is in nobody's way, and runs when it is back.
  starpu_sched_ctx_add_workers(&workers[1], 1, contexts[0]);
  std::uint32_t mask = 1U << workers[1];
  for (int i = 0; i < 100; ++i)
    submitted = submit(bound, contexts[0], workers[1], &mask) && submitted;
  starpu_sched_ctx_remove_workers(&workers[1], 1, contexts[0]);
  submit_some();
  wait_until([&] { return ran[0] == 2 * kTasks && ran[1] == 2 * kTasks; });
  std::printf("%d bound tasks have run before the worker left\n", bound_ran.load());
  starpu_sched_ctx_add_workers(&workers[1], 1, contexts[0]);
  wait_until([&] { return bound_ran == 100; });

  starpu_task_wait_for_all();
  for (const unsigned context : contexts) starpu_sched_ctx_delete(context);
  starpu_shutdown();
  std::printf("misplaced: %d\n", misplaced.load());
  return submitted && misplaced == 0 ? 0 : 1;
}
