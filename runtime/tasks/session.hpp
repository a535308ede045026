// StarPU's life: started here, shut down when the Session and every tensor are gone. One at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/result.hpp"
#include "runtime/tasks/codelet.hpp"

struct starpu_sched_policy;

namespace omni {

struct SessionOptions {
  int cpu_workers = -1;                   // -1: all cores (or STARPU_NCPU)
  std::vector<int> gpus;                  // CUDA's numbers (see choose_gpus)
  starpu_sched_policy* policy = nullptr;  // ours, `omni`; null: StarPU's dmdas
  std::string scheduler;  // its name, or one of StarPU's; "": STARPU_SCHED, else `policy`
  // See ImplementationPolicy.
  bool deterministic = false;
  std::string implementation;
  Precision precision = Precision::fp32;
  bool gpus_alone = false;
  std::filesystem::path models;  // performance models; "": see default_model_folder()
};

struct WorkerInfo {
  std::string name;
  std::string kind;  // "CPU", "CUDA"
  int device = 0;
};

class Session {
 public:
  static Result<Session> start(const SessionOptions& options);
  // What SessionOptions::scheduler may be; `ours` (may be null) comes first.
  static std::vector<std::string> schedulers(starpu_sched_policy* ours);
  // The one that these options, or the environment, name; refuses one that there is not.
  static Result<std::string> scheduler_of(const SessionOptions& options);

  std::vector<WorkerInfo> workers() const;
  std::string scheduler() const;
  // Moves the calling thread to the core of a CPU worker (0: the first). Not without hwloc.
  void bind_to_cpu_worker(int worker) const;

 private:
  explicit Session(std::shared_ptr<void> starpu) : starpu_(std::move(starpu)) {}
  std::shared_ptr<void> starpu_;
};

// Keeps StarPU running while it is held; null without a Session. Every allocated tensor holds one,
// so tensors and the Session may be destroyed in any order.
std::shared_ptr<void> hold_starpu();

// STARPU_PERF_MODEL_DIR or STARPU_HOME when set, else a folder of this user's cache.
std::filesystem::path default_model_folder();

}  // namespace omni
