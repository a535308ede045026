// StarPU's life: started here, shut down by the destructor. Everything that submits tasks or allocates
// tensors lives inside one Session.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

struct SessionOptions {
  int cpu_workers = -1;       // -1: all cores (or STARPU_NCPU)
  std::string scheduler;      // "" : STARPU_SCHED, else dmdas
  bool deterministic = false; // see ImplementationPolicy
  std::string implementation; // preferred implementation, "" = the models choose
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
  ~Session();
  Session(Session&& other) noexcept : running_(other.running_) { other.running_ = false; }
  Session& operator=(Session&&) = delete;

  std::vector<WorkerInfo> workers() const;
  std::string scheduler() const;

 private:
  Session() = default;
  bool running_ = true;
};

// STARPU_PERF_MODEL_DIR or STARPU_HOME when set, else a folder of this user's cache.
std::filesystem::path default_model_folder();

}  // namespace omni
