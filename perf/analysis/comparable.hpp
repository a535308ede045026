// This analysis tells whether two runs can be compared: the images of their tasks, and differences
// of their commands and machines.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

// ImagesOfTasks tells how many images each task of a run has. Slices may differ in size. So a task
// of a slice counts by its share of the mini-batch's operations; without operations, by its share
// of the bytes.
class ImagesOfTasks {
 public:
  // Only iterations from `counted_from` on count.
  ImagesOfTasks(const Trace& trace, std::int64_t counted_from);

  // Returns 0 for a task of no slice, whose work does not depend on images.
  double of(const Task& task) const;
  double slices() const { return slices_; }  // per mini-batch, over all ranks; 0: there are none
  double batch() const { return batch_; }

 private:
  struct Class {
    double weight = 0;      // sum over the tasks
    double per_weight = 0;  // images per unit of weight
    std::size_t tasks = 0;
    std::int32_t slices = 0;  // the largest number of a slice, plus 1
  };
  using Key = std::pair<std::uint32_t, std::int32_t>;  // codelet and layer

  double batch_ = 0, slices_ = 0;
  std::map<Key, Class> classes_;
};

// Returns whether corresponding tasks of the two runs have the same number of images.
bool same_slices(const ImagesOfTasks& one, const ImagesOfTasks& other);

// Returns lines such as "different batch: 32 and 64" or "different --slice: 8 and none".
std::vector<std::string> differences_of_runs(const Trace& before, const Trace& after);

}  // namespace omni::perf
