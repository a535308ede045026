// Progress shows how far a training is: on a terminal it redraws one line, to a pipe it prints a
// line per report.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "scheduling/training/step_report.hpp"

namespace omni {

// A CommonLine shows on a terminal how far several trainings are, which run at the same time.
class CommonLine {
 public:
  // Puts the text of a training into the line, and redraws it a few times a second.
  void show(const std::string& training, const std::string& text);
  void finish();  // so that other output starts on a line of its own

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::string>> texts_;  // by training
  bool is_open_ = false;
  std::chrono::steady_clock::time_point drawn_{};
};

class Progress {
 public:
  // `common` is the line that all trainings in this process share, in which this one is called
  // `name`. It is null if there is no other training.
  explicit Progress(bool quiet, CommonLine* common = nullptr, std::string name = "");

  void iteration(const StepReport& report);  // redraws the bar, a few times a second
  void step(const StepReport& report);       // prints a line on a pipe
  void evaluation(const EvaluationReport& report, int classes);
  // Shows the progress of omni-run data: redraws a line on a terminal, prints a line for each tenth
  // to a pipe.
  void checked(std::size_t done, std::size_t all, std::size_t unreadable);
  // Shows the progress of omni-run dataset in the same way.
  void prepared(std::size_t done, std::size_t all);
  // Shows the progress of other long steps: redraws a line on a terminal, prints nothing to a pipe.
  void part(const std::string& what, int done, int all);
  void finish_line();  // so that other output starts on a line of its own
  static std::string line(const EvaluationReport& report, int classes);

 private:
  std::string bar(const StepReport& report) const;
  bool is_time(bool last);
  void tenth(const std::string& text, std::size_t done, std::size_t all);
  void redraw(const std::string& text);
  bool quiet_, terminal_;
  CommonLine* common_;
  std::string name_;
  int width_;  // columns of the terminal
  bool open_line_ = false;
  std::size_t tenths_ = 0;  // number of tenths that are printed
  std::chrono::steady_clock::time_point drawn_{};
};

// Returns a text like "test loss 0.2725, test accuracy 90.11 % (top 5: 99.82 %) on 10000 images".
std::string tested(const Tally& tally, int classes);
std::string duration(double seconds);   // "1h02m", "3m05s", "12s"
std::string simulated(double seconds);  // by a virtual clock: "12.3 ms simulated"

}  // namespace omni
