// A Session starts StarPU, which stops when the Session and all tensors are destroyed. There is one
// Session at a time.
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
  std::vector<int> gpus;                  // CUDA's device numbers (see choose_gpus)
  starpu_sched_policy* policy = nullptr;  // our policy `omni`; null: only StarPU's policies
  std::string scheduler;  // a name of schedulers(); "": STARPU_SCHED, else `policy`, else dmdas
  // ImplementationPolicy explains the following four members.
  bool deterministic = false;
  std::string implementation;
  Precision precision = Precision::fp32;
  bool gpus_alone = false;
  std::filesystem::path models;  // folder of performance models; "": default_model_folder()
};

struct WorkerInfo {
  std::string name;
  std::string kind;  // "CPU", "CUDA"
  int device = 0;
};

class Session {
 public:
  static Result<Session> start(const SessionOptions& options);
  // Returns the possible values of SessionOptions::scheduler. `ours`, if not null, comes first.
  static std::vector<std::string> schedulers(starpu_sched_policy* ours);
  // Returns the scheduler that start() would use. Refuses an unknown name.
  static Result<std::string> scheduler_of(const SessionOptions& options);

  std::vector<WorkerInfo> workers() const;
  std::string scheduler() const;
  // Binds the calling thread to the core of a CPU worker, counted from 0. Does nothing without
  // hwloc.
  void bind_to_cpu_worker(int worker) const;

 private:
  explicit Session(std::shared_ptr<void> starpu) : starpu_(std::move(starpu)) {}
  std::shared_ptr<void> starpu_;
};

// Returns an object that keeps StarPU running; null without a Session. Every allocated tensor holds
// it, so tensors and the Session may be destroyed in any order.
std::shared_ptr<void> hold_starpu();

// Returns STARPU_PERF_MODEL_DIR if set, else a folder in STARPU_HOME, in this user's cache, or
// where temporary files go.
std::filesystem::path default_model_folder();

}  // namespace omni
