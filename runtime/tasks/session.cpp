#include "runtime/tasks/session.hpp"
#include "runtime/tasks/calls/task_chain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <starpu.h>
#include <starpu_scheduler.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "runtime/cuda/devices.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/device_context.hpp"
#include "runtime/tasks/models/model_folder.hpp"
#include "runtime/tasks/models/page_placement.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/worker_set.hpp"
#include "runtime/threads.hpp"

namespace omni {
namespace {

std::weak_ptr<void> running;

// Returns the policy `ours` and StarPU's policies.
std::vector<starpu_sched_policy*> policies(starpu_sched_policy* ours) {
  std::vector<starpu_sched_policy*> all;
  if (ours != nullptr) all.push_back(ours);
  for (starpu_sched_policy** policy = starpu_sched_get_predefined_policies(); *policy != nullptr;
       ++policy)
    // graph_test schedules nothing until a program tells it to, so a run would wait for ever.
    if (std::string_view((*policy)->policy_name) != "graph_test") all.push_back(*policy);
  return all;
}

// Returns null if there is no policy of that name.
starpu_sched_policy* find_policy(const std::string& name, starpu_sched_policy* ours) {
  const auto all = policies(ours);
  const auto found =
      std::ranges::find_if(all, [&](const auto* each) { return name == each->policy_name; });
  return found == all.end() ? nullptr : *found;
}

}  // namespace

std::filesystem::path default_model_folder() {
  for (const auto& [variable, below] :
       {std::pair("STARPU_PERF_MODEL_DIR", ""), std::pair("STARPU_HOME", ".starpu/sampling"),
        std::pair("XDG_CACHE_HOME", "omnivore/models"),
        std::pair("HOME", ".cache/omnivore/models")})
    if (const std::filesystem::path folder = environment(variable); !folder.empty())
      return *below == '\0' ? folder : folder / below;
  return std::filesystem::temp_directory_path() / "omnivore-models";
}

Result<Session> Session::start(const SessionOptions& options) {
  const std::filesystem::path models =
      options.models.empty() ? default_model_folder() : options.models;
  std::error_code problem;
  std::filesystem::create_directories(models, problem);
  if (problem)
    return Error{ErrorKind::usage, models.string(),
                 "cannot make the performance model folder: " + problem.message(),
                 "name a writable one with --models"};
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const int cpus = options.cpu_workers;
  OMNI_CHECK(reserve_address_space(cpus < 0 ? cores : std::min(cpus, cores)));
  OMNI_TRY(const auto copy, ModelFolder::open(models));
  setenv("STARPU_SILENT", "1", 0);
  setenv("STARPU_NOPENCL", "0", 0);  // no OpenCL devices: no codelet uses them, and probing is slow
  // By default StarPU writes data back in advance that it might evict, however much room there is.
  // The memory plan makes all data fit, so this is off. Data that are evicted nevertheless are
  // written back at that time.
  setenv("STARPU_MINIMUM_CLEAN_BUFFERS", "0", 0);

  // A GPU that computes alone holds 4 tasks: the iteration that computes, the next one, and tasks
  // for the images of a later one. With StarPU's default, 2, the next iteration might not be among
  // them. Several GPUs would take tasks from each other.
  if (options.gpus_alone && options.gpus.size() == 1) setenv("STARPU_CUDA_PIPELINE", "4", 0);

  OMNI_TRY(const std::string scheduler, scheduler_of(options));
  starpu_sched_policy* policy = find_policy(scheduler, options.policy);

  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.catch_signals = 0;  // runtime/signals.hpp handles them
  conf.ncpus = options.cpu_workers;
  conf.ncuda = static_cast<int>(std::min<std::size_t>(options.gpus.size(), STARPU_MAXCUDADEVS));
  conf.use_explicit_workers_cuda_gpuid = 1;
  std::copy_n(options.gpus.begin(), conf.ncuda, conf.workers_cuda_gpuid);
  conf.sched_policy = policy;
  // StarPU would prefer these variables to `conf`, so they are unset.
  for (const char* decided : {"STARPU_SCHED", "STARPU_NCUDA", "STARPU_WORKERS_CUDAID"})
    unsetenv(decided);
  if (options.cpu_workers >= 0) unsetenv("STARPU_NCPU");

  // StarPU aborts if it cannot start its threads, so this first tests whether as many can be
  // started.
  try {
    run_together((options.cpu_workers >= 0 ? options.cpu_workers : cores) + conf.ncuda + 1,
                 [](int) {});
  } catch (const std::runtime_error& refused) {
    return Error{ErrorKind::failed, "", refused.what(), ""};
  }
  clear_task_errors();
  starpu_malloc_set_align(64);
  // StarPU reads these variables once. In XDG_CACHE_HOME it would also look for models.
  for (const char* place : {"STARPU_PERF_MODEL_DIR", "XDG_CACHE_HOME"})
    setenv(place, copy->path().c_str(), 1);
  setenv("STARPU_PERF_MODEL_PATH", "", 1);
  const int code = starpu_init(&conf);
  setenv("STARPU_PERF_MODEL_DIR", models.c_str(), 1);
  if (code != 0)
    return Error{ErrorKind::device, "StarPU", fmt::format("cannot start: {}", std::strerror(-code)),
                 "check --workers, STARPU_NCPU and the cores this process may use"};
  if (starpu_worker_get_count() == 0) {
    starpu_shutdown();
    return Error{ErrorKind::device, "StarPU", "no worker", "give at least one CPU core"};
  }
  std::vector<int> gpu_workers(starpu_cuda_worker_get_count());
  starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, gpu_workers.data(),
                                static_cast<unsigned>(gpu_workers.size()));
  set_implementation_policy({.deterministic = options.deterministic,
                             .preferred = options.implementation,
                             .gpu_workers = WorkerSet(gpu_workers).bits(),
                             .precision = options.precision,
                             .gpus_alone = options.gpus_alone});
  std::shared_ptr<void> starpu(&running, [copy](void*) {
    starpu_task_wait_for_all();
#ifdef OMNI_CUDA
    TaskChain::record_finished();
    release_cuda_workers();
#endif
    copy->prepare_last_write();
    starpu_shutdown();
    copy->publish();
  });
  running = starpu;
  return Session(std::move(starpu));
}

Result<std::string> Session::scheduler_of(const SessionOptions& options) {
  const std::string variable = environment("STARPU_SCHED");
  std::string name = !options.scheduler.empty()  ? options.scheduler
                     : !variable.empty()         ? variable
                     : options.policy != nullptr ? options.policy->policy_name
                                                 : "dmdas";
  if (find_policy(name, options.policy) != nullptr) return name;
  return Error{ErrorKind::usage, "", fmt::format("unknown scheduler {}", shown_name(name)),
               fmt::format("one of: {}", fmt::join(schedulers(options.policy), " "))};
}

std::vector<std::string> Session::schedulers(starpu_sched_policy* ours) {
  std::vector<std::string> names;
  for (const starpu_sched_policy* policy : policies(ours)) names.emplace_back(policy->policy_name);
  return names;
}

std::shared_ptr<void> hold_starpu() { return running.lock(); }

std::vector<WorkerInfo> Session::workers() const {
  std::vector<WorkerInfo> workers;
  for (unsigned id = 0; id < starpu_worker_get_count(); ++id) {
    char name[64];
    starpu_worker_get_name(static_cast<int>(id), name, sizeof name);
    const auto type = starpu_worker_get_type(static_cast<int>(id));
    workers.push_back({name, starpu_worker_get_type_as_string(type),
                       starpu_worker_get_devid(static_cast<int>(id))});
  }
  return workers;
}

void Session::bind_to_cpu_worker(int worker) const {
#ifdef STARPU_HAVE_HWLOC
  const int id = starpu_worker_get_by_devid(STARPU_CPU_WORKER, worker);
  const Bitmap cores(id < 0 ? nullptr : starpu_worker_get_hwloc_cpuset(id));
  if (!cores ||
      hwloc_set_cpubind(starpu_get_hwloc_topology(), cores.get(), HWLOC_CPUBIND_THREAD) != 0)
    log::warn_once("threads cannot be bound to the workers' cores: measured rates may be too low");
#else
  (void)worker;
#endif
}

std::string Session::scheduler() const { return starpu_sched_get_sched_policy()->policy_name; }

}  // namespace omni
