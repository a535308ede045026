// What a person sees while training: one redrawn line on a terminal, one line per report on a pipe.
#pragma once

#include <chrono>
#include <string>

#include "scheduling/trainer.hpp"

namespace omni {

class Progress {
 public:
  Progress(bool quiet, bool terminal, int width);
  static Progress on_stderr(bool quiet);  // asks the terminal

  void iteration(const StepReport& report);  // redraws the bar, a few times a second
  void step(const StepReport& report);       // prints a line on a pipe
  void evaluation(const EvaluationReport& report);
  void finish_line();  // so that other output starts on a line of its own

  // Darknet's line, which many scripts grep.
  static std::string line(const StepReport& report);
  static std::string line(const EvaluationReport& report);
  std::string bar(const StepReport& report) const;

 private:
  bool quiet_, terminal_;
  int width_;
  bool open_line_ = false;
  std::chrono::steady_clock::time_point drawn_{};
};

std::string duration(double seconds);  // "1h02m", "3m05s", "12s"

}  // namespace omni
