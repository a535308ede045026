// This analysis finds how well the performance models predicted, and which tasks took unusually
// long or short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

struct ModelRow {
  std::string codelet, implementation, kind;
  std::size_t tasks = 0, predicted = 0;
  double mape = 0;  // mean of |predicted - actual| / actual over tasks with a prediction; 1 = 100 %
  double bias = 0;  // mean of (predicted - actual) / actual
};

struct OddTask {
  std::uint32_t task = 0;  // index into Trace::tasks
  double expected = 0;     // s: the prediction, or the median of its class
  double actual = 0;       // s
  double mads = 0;         // |actual - expected| in MADs; only of outliers
};

struct Models {
  double mape = 0;                // over all tasks with a prediction
  double without_prediction = 0;  // share of tasks
  std::vector<ModelRow> rows;     // those with most compute time come first
  std::vector<OddTask> worst;     // those with the ten largest |predicted - actual|
  // An outlier is more than 5 MADs off the median of its class, which has at least 8 tasks. A class
  // is a codelet, layer, implementation and kind of worker. A MAD counts as at least 1 % of the
  // median.
  std::size_t outlier_count = 0;
  double outlier_seconds = 0;  // sum of (actual - median) over all outliers
  // This is the same sum over outliers that took longer and belong to a layer; tasks of no layer
  // may differ in size. Tasks of the first two iterations, which warm up, do not count.
  double disturbed_seconds = 0;
  std::vector<OddTask> outliers;  // the ten farthest off in seconds
};

Models analyse_models(const Trace& trace);

}  // namespace omni::perf
