// How far two runs can be compared: for how many images their tasks are, and in what their commands
// and machines differ.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

// Of the tasks of one run. A task of a slice is for its share of the mini-batch, by its operations,
// or else by its bytes; so slices may be of several sizes.
class ImagesOfTasks {
 public:
  // Only iterations from this one on count.
  ImagesOfTasks(const Trace& trace, std::int64_t counted_from);

  // 0: the task is of no slice, so that its work does not follow the images.
  double of(const Task& task) const;
  double slices() const { return slices_; }  // of a mini-batch, over all ranks; 0: there are none
  double batch() const { return batch_; }

 private:
  struct Class {
    double weight = 0;      // of all tasks
    double per_weight = 0;  // images
    std::size_t tasks = 0;
    std::int32_t slices = 0;  // by their numbers
  };
  using Key = std::pair<std::uint32_t, std::int32_t>;  // codelet and layer

  double batch_ = 0, slices_ = 0;
  std::map<Key, Class> classes_;
};

// Whether a task of one run is for as many images as its like in the other one.
bool same_slices(const ImagesOfTasks& one, const ImagesOfTasks& other);

// "different batch: 32 and 64", "different --slice: 8 and none", ...
std::vector<std::string> differences_of_runs(const Trace& before, const Trace& after);

}  // namespace omni::perf
