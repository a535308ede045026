// Bounds tell how fast submitted tasks could run on a simulated machine at best, whatever the
// scheduler and without transfers. They are no faster than all workers busy all the time, and no
// faster than the longest chain of tasks that wait for each other. `omni-perf bounds` does the
// same; here the lengths are known.
#pragma once

#include <starpu.h>

#include <map>
#include <vector>

namespace omni::test {

class Bounds {
 public:
  // add() has to be called in the order of submission. The times are microseconds on a core and on
  // a GPU; infinity: the task cannot run there.
  void add(const starpu_task& task, double on_core, double on_gpu);

  double area(int cores, int gpus) const;
  double critical_path() const { return path_; }

 private:
  struct Lengths {
    double core, gpu;
  };
  // When tasks on it can have ended: the last writer, the readers since, and those that commute.
  struct Datum {
    double written = 0, read = 0;
    double begun = 0, together = 0, added = 0;
    double all_written() const;
  };
  std::vector<Lengths> tasks_;
  std::map<starpu_data_handle_t, Datum> data_;
  double path_ = 0;
};

}  // namespace omni::test
