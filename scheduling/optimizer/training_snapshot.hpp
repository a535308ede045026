// A copy of a training's state in memory, from which trials start and to which they are rolled
// back.
#pragma once

#include <vector>

#include "scheduling/trainer.hpp"

namespace omni {

class TrainingSnapshot {
 public:
  // No task may be under way, here and in restore().
  void take(ComputeGroups& groups, const TrainingState& state, bool with_replicas = true);
  // Without replicas, or with another number of groups than was taken, all start from the masters.
  void restore(ComputeGroups& groups) const;

  const TrainingState& state() const { return state_; }
  // The memory of one snapshot, if all groups are in use.
  static std::size_t bytes(ComputeGroups& groups, bool with_replicas = true);

 private:
  TrainingState state_;
  std::vector<std::vector<float>> arrays_, replicas_;  // in the order of training_arrays.hpp
  int groups_ = 0;
};

}  // namespace omni
