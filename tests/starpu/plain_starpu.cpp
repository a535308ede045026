// This StarPU program uses nothing of Omnivore. Its argument is the name of a scheduler. It fails
// if StarPU uses another scheduler, or if ready tasks do not run by priority.
#include <starpu.h>
#include <starpu_scheduler.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

namespace {

std::vector<int> order;  // of the tasks that have run, on the one worker there is
std::atomic<bool> all_are_there = false;

void note(void*[], void* number) { order.push_back(*static_cast<int*>(number)); }

void keep_the_worker(void*[], void*) { all_are_there.wait(false); }

// The codelet has no performance model, so the scheduler does not know how long it takes.
starpu_codelet codelet_of(starpu_cpu_func_t function) {
  starpu_codelet codelet;
  starpu_codelet_init(&codelet);
  codelet.cpu_funcs[0] = function;
  return codelet;
}

bool submit(starpu_codelet& codelet, int& number) {
  starpu_task* task = starpu_task_create();
  task->cl = &codelet;
  task->cl_arg = &number;
  task->cl_arg_size = sizeof number;
  task->priority = number;
  return starpu_task_submit(task) == 0;
}

}  // namespace

int main(int, char** argv) {
  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.ncpus = 1;
  if (starpu_init(&conf) != 0) return 2;
  const std::string scheduler = starpu_sched_get_sched_policy()->policy_name;
  starpu_codelet gate = codelet_of(keep_the_worker), codelet = codelet_of(note);
  std::vector<int> numbers{4, 1, 3, -2, 2, 0};
  bool submitted = true;
  for (int& number : numbers)
    submitted = submit(&number == &numbers.front() ? gate : codelet, number) && submitted;
  all_are_there = true;
  all_are_there.notify_all();
  starpu_task_wait_for_all();
  starpu_shutdown();
  std::printf("scheduler %s, order", scheduler.c_str());
  for (const int each : order) std::printf(" %d", each);
  std::printf("\n");
  return submitted && scheduler == argv[1] && order == std::vector<int>{3, 2, 1, 0, -2} ? 0 : 1;
}
