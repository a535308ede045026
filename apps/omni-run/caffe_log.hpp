// CaffeLog prints the lines of a training as Caffe does. Caffe's script tools/extra/parse_log.py,
// and scripts of users, read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "layers/net_description.hpp"
#include "scheduling/training/step_report.hpp"

namespace omni {

class CaffeLog {
 public:
  // Caffe reports an iteration before its update, and counts iterations from 0.
  bool is_reported(std::uint64_t iteration) const { return (iteration - 1) % display_ == 0; }
  // Every `display` iterations are reported. The line of an iteration has the mean loss of
  // averaged_losses mini-batches, up to its own.
  void begin(std::uint64_t display, const TrainableNet& net);
  void iteration(const StepReport& report);
  void step(const StepReport& report);
  void evaluation(const EvaluationReport& report, int classes) const;
  void snapshot(const std::string& parameters, const std::string& state) const;
  void end() const;

 private:
  std::uint64_t display_ = 1, last_ = 0;  // last_: the last iteration that was reported
  bool first_ = true;
  double seconds_ = 0;  // of training, at that report
  std::size_t averaged_ = 1;
  std::deque<double> losses_{};
  // A Loss is a loss layer of the net. Auxiliary ones are in the order of StepReport.
  struct Loss {
    std::string name;
    double weight = 1;
  };
  std::vector<Loss> auxiliary_{};
  Loss own_{"loss"};
};

// Returns what glog prints before a line: "I1130 06:50:06.586750 15231 solver.cpp:231] ". `place`
// is a file of Caffe's source with a line number.
std::string glog_prefix(const char* place);

}  // namespace omni
