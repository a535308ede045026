// Bounds tells how fast the submitted tasks could run on a simulated machine at best, with any
// scheduler and without transfers. They cannot be faster than with all workers always busy, nor
// than the longest chain of dependent tasks. `omni-perf bounds` does the same for a trace, whose
// tasks' lengths are measured.
#pragma once

#include <starpu.h>

#include <map>
#include <vector>

namespace omni::test {

class Bounds {
 public:
  // add() must be called in the order of submission. The times are microseconds on a core and on a
  // GPU. Infinity means that the task cannot run there.
  void add(const starpu_task& task, double on_core, double on_gpu);

  double area(int cores, int gpus) const;
  double critical_path() const { return path_; }

 private:
  struct Lengths {
    double core, gpu;
  };
  // A Datum holds when the tasks that access it can have ended: the last writer, later readers, and
  // tasks that commute.
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
