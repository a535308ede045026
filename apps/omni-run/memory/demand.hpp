// This header forecasts the memory of a run, in main memory and on each GPU, before anything is
// allocated. A machine that runs out of memory later kills the process without a message. On a full
// GPU StarPU tries to allocate until the run is ended (runtime/cuda/full_gpu.hpp).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/omni-run/arguments.hpp"
#include "layers/net.hpp"
#include "runtime/data/feed/data_feed.hpp"
#include "runtime/tasks/tensor_pool.hpp"
#include "runtime/tasks/worker_set.hpp"
#include "scheduling/groups/compute_groups.hpp"

namespace omni {

struct MemoryDemand {
  std::vector<TensorSize> tensors;  // of the nets; transient ones for each mini-batch
  // These are the tensors of the data feeds for each mini-batch. With more subdivisions than now,
  // more_when_cut times as many training tensors wait.
  std::vector<TensorSize> training_images, test_images;
  double more_when_cut = 1;
  std::vector<WorkerSet> groups{};      // workers by group; none: all workers serve the only group
  Net::WorkingBytes working;            // bytes of each worker
  std::size_t in_main_memory_only = 0;  // further bytes
  std::size_t snapshots = 0;            // bytes of snapshots of parameters
  std::string without_snapshots{};      // how to train without snapshots, for the message
};

// These return the demand of groups that train, and of a net that is evaluated. `test` may be null.
// `working` is net.working_bytes(); it may be empty if no GPU computes.
MemoryDemand training_demand(const ComputeGroups& groups, const DataFeed& train,
                             const DataFeed* test, const Net::WorkingBytes& working);
MemoryDemand evaluation_demand(const Net& net, const DataFeed* test,
                               const Net::WorkingBytes& working);
// Returns net.working_bytes(), for which the tasks of an iteration are captured. Without GPUs it is
// empty.
Net::WorkingBytes working_on_gpus(Net& net);

class MemoryForecast {
 public:
  MemoryForecast(const Net& net, MemoryDemand demand, const MachineArguments& machine);

  std::size_t in_main_memory() const { return in_main_memory(now_); }
  struct OnGpu {
    std::size_t tensors = 0, working = 0;
    std::size_t all() const { return tensors + working; }
  };
  OnGpu on_each_gpu() const { return on_each_gpu(now_); }  // only if a GPU computes

  // Refuses a run that does not fit, and suggests a number of subdivisions that fits. If a GPU gets
  // full later nevertheless, its message has the suggestion, too.
  Status require() const;

 private:
  std::size_t in_main_memory(int subdivisions) const;
  OnGpu on_each_gpu(int subdivisions) const;
  double of_images(const std::vector<TensorSize>& images, int subdivisions) const;
  double share_of_now(int subdivisions) const {  // size of a mini-batch, relative to now
    return static_cast<double>(now_) / subdivisions;
  }
  double more_slots(int subdivisions) const {
    return subdivisions > now_ ? demand_.more_when_cut : 1;
  }
  // Returns the largest share that one GPU has of all groups' mini-batches.
  double largest_share() const;
  // Names the smallest larger number of subdivisions, a divisor of the mini-batch, for which
  // fits(number) is true. If there is none, the text says so.
  std::string what_would_fit(auto fits) const;

  const Net& net_;
  MemoryDemand demand_;
  const MachineArguments& machine_;
  int now_;
};

}  // namespace omni
