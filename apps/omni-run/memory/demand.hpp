// What a run will hold, in main memory and on every GPU, worked out before anything is allocated: a
// machine that runs out later kills without a word, and where a GPU has no room,
// StarPU tries in vain until the run is ended (runtime/cuda/full_gpu.hpp).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/omni-run/arguments.hpp"
#include "layers/net.hpp"
#include "runtime/data/data_feed.hpp"
#include "runtime/tasks/tensor_pool.hpp"
#include "runtime/tasks/worker_set.hpp"
#include "scheduling/groups/compute_groups.hpp"

namespace omni {

struct MemoryDemand {
  std::vector<TensorSize> tensors;  // of the nets: what is transient is by mini-batch
  // Of data feeds, by mini-batch. `more_when_cut` times as many of the training's wait when an
  // update takes several mini-batches.
  std::vector<TensorSize> training_images, test_images;
  double more_when_cut = 1;
  std::vector<WorkerSet> groups{};  // that serve one each; none: all serve the only one
  Net::WorkingBytes working;        // of each worker
  std::size_t in_main_memory_only = 0;
  std::size_t snapshots = 0;        // of that, of parameters that may come back
  std::string without_snapshots{};  // what to do to train without them
};

// Of groups that train, and of a net that is only evaluated. `test` may be null. `working` is
// net.working_bytes(), or where no GPU computes and nobody asks for it, nothing.
MemoryDemand training_demand(const ComputeGroups& groups, const DataFeed& train,
                             const DataFeed* test, const Net::WorkingBytes& working);
MemoryDemand evaluation_demand(const Net& net, const DataFeed* test,
                               const Net::WorkingBytes& working);
// Captures the tasks of an iteration only where a GPU computes.
Net::WorkingBytes working_on_gpus(Net& net);

class MemoryForecast {
 public:
  MemoryForecast(const Net& net, MemoryDemand demand, const MachineArguments& machine);

  std::size_t in_main_memory() const { return in_main_memory(now_); }
  struct OnGpu {
    std::size_t tensors = 0, working = 0;
    std::size_t all() const { return tensors + working; }
  };
  OnGpu on_each_gpu() const { return on_each_gpu(now_); }  // where one computes

  // Refuses what does not fit, and says how many subdivisions would. When what fits begins, and a
  // GPU is full nevertheless, that says it, too.
  Status require() const;

 private:
  std::size_t in_main_memory(int subdivisions) const;
  OnGpu on_each_gpu(int subdivisions) const;
  double of_images(const std::vector<TensorSize>& images, int subdivisions) const;
  double share_of_now(int subdivisions) const {  // of a mini-batch
    return static_cast<double>(now_) / subdivisions;
  }
  double more_slots(int subdivisions) const {
    return subdivisions > now_ ? demand_.more_when_cut : 1;
  }
  // Of all groups' mini-batches, what lies on the GPU that holds the most.
  double largest_share() const;
  // `fits(subdivisions)`: the first number for which it is true, or what else to do.
  std::string what_would_fit(auto fits) const;

  const Net& net_;
  MemoryDemand demand_;
  const MachineArguments& machine_;
  int now_;
};

}  // namespace omni
