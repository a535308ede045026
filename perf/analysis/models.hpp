// How well the performance models predicted, and which tasks took unusually long or short.
#pragma once

#include <string>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

struct ModelRow {
  std::string codelet, implementation, kind;
  std::size_t tasks = 0, predicted = 0;
  double mape = 0;  // mean of |predicted - actual| / actual, of tasks with a prediction; 1 = 100 %
  double bias = 0;  // mean of (predicted - actual) / actual
};

struct OddTask {
  std::uint32_t task = 0;  // index into Trace::tasks
  double expected = 0;     // s: the prediction, or the median of its class
  double actual = 0;       // s
  double mads = 0;         // |actual - expected| in MADs; outliers only
};

struct Models {
  double mape = 0;                // of all tasks with a prediction
  double without_prediction = 0;  // share of tasks
  std::vector<ModelRow> rows;     // most compute time first
  std::vector<OddTask> worst;     // ten largest |predicted - actual|
  // More than 5 MADs (at least 1 % of the median each) off the median of the same codelet, layer,
  // implementation and kind of worker, in classes of at least 8 tasks.
  std::size_t outlier_count = 0;
  double outlier_seconds = 0;     // what they took beyond the median, in all
  std::vector<OddTask> outliers;  // ten farthest off in time
};

Models analyse_models(const Trace& trace);

}  // namespace omni::perf
