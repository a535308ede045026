// What `omni-run time` shows of the iterations it has timed.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "layers/net.hpp"
#include "runtime/tasks/models/expected_times.hpp"
#include "runtime/tasks/task_times.hpp"

namespace omni {

// Large matrix products per second on one CPU worker, and on one GPU (0: none).
struct WorkerPeaks {
  double cpu = 0, gpu = 0;
};

// All per iteration; seconds are those of workers.
struct TimeReport {
  struct Implementation {
    bool on_gpu = false;
    double tasks = 0;     // that it ran
    double expected = 0;  // seconds if it ran all tasks of this codelet and layer; NaN: not known
  };
  struct Layer {
    double forward = 0, backward = 0;  // seconds
    double flops = 0, bytes = 0;
    double seconds_at_peak = 0;             // the same flops as matrix products
    std::set<std::string> implementations;  // that ran
    std::map<std::string, std::map<std::string, Implementation>> codelets;
  };
  std::map<int, Layer> layers;  // -1: updates and decoding
  double seconds = 0;           // wall
  double tasks = 0;
  std::vector<double> periods;  // seconds from one iteration's loss to the next one's

  static TimeReport make(const std::vector<TaskTime>& times,
                         const std::vector<ExpectedTime>& expected, const WorkerPeaks& peaks,
                         int iterations);
  void print_table(const Net& net) const;
  void print_json(const Net& net) const;

 private:
  double images_per_second(const Net& net) const { return net.options().batch / seconds; }
};

}  // namespace omni
