// What a person sees while training: one redrawn line on a terminal, one line per report on a pipe.
#pragma once

#include <chrono>
#include <string>

#include "scheduling/trainer.hpp"

namespace omni {

class Progress {
 public:
  explicit Progress(bool quiet);

  void iteration(const StepReport& report);  // redraws the bar, a few times a second
  void step(const StepReport& report);       // prints a line on a pipe
  void evaluation(const EvaluationReport& report, int classes);
  void finish_line();  // so that other output starts on a line of its own
  static std::string line(const EvaluationReport& report, int classes);

 private:
  std::string bar(const StepReport& report) const;
  bool quiet_, terminal_;
  int width_ = 80;  // columns of the terminal
  bool open_line_ = false;
  std::chrono::steady_clock::time_point drawn_{};
};

// "test loss 0.2725, test accuracy 90.11 % (top 5: 99.82 %) on 10000 images"
std::string tested(const Tally& tally, int classes);
std::string duration(double seconds);  // "1h02m", "3m05s", "12s"

}  // namespace omni
