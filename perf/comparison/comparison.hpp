// Trainings of several strategies with several seeds, and what they say about the strategies: time,
// epochs and updates to a test accuracy. Evaluations are points; nothing is interpolated.
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

  // The first evaluation with at least this test accuracy, and a time of the clock that is meant;
  // null: none has it.
  const MetricsLine* reached(double target, bool simulated) const;
};

// Of the virtual clock, or of the real one; kAbsent: the line does not say. The two are never
// mixed.
double seconds_of(const MetricsLine& line, bool simulated);
// Whether any evaluation has a time of a virtual clock.
bool are_simulated(const std::vector<MetricsLine>& evaluations);

std::vector<MetricsLine> evaluations_in(const std::vector<MetricsLine>& metrics);

struct StrategyRow {
  std::string strategy;
  int trainings = 0, reached = 0, diverged = 0, failed = 0;
  Spread epochs{}, seconds{}, updates{};   // to the target, of the trainings that reached it
  Spread images_per_second{}, accuracy{};  // at the last evaluation
  double median_seconds = kAbsent;  // to the target; a training that missed it counts as infinite
};

// The best strategy against another one, over the seeds that both have.
struct Lead {
  std::string over;
  int ahead = 0, behind = 0, seeds = 0;
  double p = kAbsent;  // of the two-sided sign test; with one seed not known
};

struct Comparison {
  double target = 0;
  bool simulated = false;    // times are of a virtual clock
  std::size_t left_out = 0;  // evaluations that lack such a time
  std::vector<StrategyRow> rows{};
  std::string best{};  // by median time to the target; "": no median is finite
  std::vector<Lead> leads{};
};

Comparison compare(const std::vector<std::string>& strategies,
                   const std::vector<Training>& trainings, double target);

// The probability that a fair coin falls at least as unevenly.
double sign_test(int ahead, int behind);

// As JSON: the file compare.json, the answer of --json, the data of the page.
// It has the form of the metrics file, so that metrics_line() reads it again.
nlohmann::ordered_json evaluation_json(const MetricsLine& line);

nlohmann::ordered_json training_json(const Training& training, double target, bool simulated);
Result<Training> read_training(const nlohmann::json& object);

// The members "clock", "left_out", "strategies", "best", "leads" and "trainings".
nlohmann::ordered_json comparison_json(const Comparison& comparison,
                                       const std::vector<Training>& trainings);

}  // namespace omni::perf
