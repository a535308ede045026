// This header compares strategies by trainings with several seeds: time, epochs and updates to a
// test accuracy. Evaluations are points; nothing is interpolated.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "perf/common/statistics.hpp"
#include "perf/report/metrics_file.hpp"

namespace omni::perf {

enum class Outcome { trained, diverged, failed };

struct Training {
  std::string strategy{};
  int seed = 1;
  Outcome outcome = Outcome::trained;
  std::vector<MetricsLine> evaluations{};

  // Returns the first evaluation with at least this test accuracy and with a time of the clock;
  // null: none.
  const MetricsLine* reached(double target, bool simulated) const;
};

// Returns the time by the virtual clock (`simulated`) or by the real one; kAbsent: the line does
// not have it.
double seconds_of(const MetricsLine& line, bool simulated);
// Returns whether any evaluation has a time by a virtual clock.
bool are_simulated(const std::vector<MetricsLine>& evaluations);

std::vector<MetricsLine> evaluations_in(const std::vector<MetricsLine>& metrics);

struct StrategyRow {
  std::string strategy;
  int trainings = 0, reached = 0, diverged = 0, failed = 0;
  Spread epochs{}, seconds{}, updates{};   // to the target, over the trainings that reached it
  Spread images_per_second{}, accuracy{};  // at the last evaluation
  double median_seconds = kAbsent;         // s to the target; infinite: the median is a miss
};

// A Lead compares the best strategy with another one, over the seeds that both have.
struct Lead {
  std::string over;
  int ahead = 0, behind = 0, seeds = 0;
  double p = kAbsent;  // of the two-sided sign test; kAbsent: fewer than two seeds
};

struct Comparison {
  double target = 0;
  bool simulated = false;    // true: times are by a virtual clock
  std::size_t left_out = 0;  // evaluations that lack such a time
  std::vector<StrategyRow> rows{};
  std::string best{};  // strategy with the least median time to the target; "": no median is finite
  std::vector<Lead> leads{};
};

Comparison compare(const std::vector<std::string>& strategies,
                   const std::vector<Training>& trainings, double target);

// Returns the probability that ahead + behind tosses of a fair coin fall at least as unevenly.
double sign_test(int ahead, int behind);

// The following functions write JSON: for the file compare.json, for --json, and for the page.

// Writes an evaluation as a line of the metrics file, so that metrics_line() can read it.
nlohmann::ordered_json evaluation_json(const MetricsLine& line);

nlohmann::ordered_json training_json(const Training& training, double target, bool simulated);
Result<Training> read_training(const nlohmann::json& object);

// Returns an object with the members "clock", "left_out", "strategies", "best", "leads" and
// "trainings".
nlohmann::ordered_json comparison_json(const Comparison& comparison,
                                       const std::vector<Training>& trainings);

}  // namespace omni::perf
