// What the kernels took, attained and should have taken, by codelet, implementation and kind of
// worker.
#pragma once

#include <string>
#include <vector>

#include "perf/common/statistics.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

struct KernelRow {
  std::string codelet, implementation, kind;
  std::string layer;  // only when asked for: its layer_name()
  Spread seconds;     // of one task
  double share = 0;   // of all compute time
  double flops = 0, bytes = 0;

  double gflops() const { return ratio(flops, seconds.total) * 1e-9; }
  double gbytes() const { return ratio(bytes, seconds.total) * 1e-9; }  // per second
};

struct Kernels {
  double compute = 0;           // s
  std::vector<KernelRow> rows;  // longest total first
};

Kernels analyse_kernels(const Trace& trace, bool by_layer = false);

// ---- roofline: how far every codelet is from what this machine can do: the peaks that were
// measured before the run, of a large matrix product and of a large copy, on one worker ----

struct RooflineRow : KernelRow {
  double intensity = 0;  // flop / byte; infinite without bytes
  double attained = 0;   // flop/s of one worker; byte/s for codelets without flops
  double roof = 0;       // in the unit of `attained`; 0: unknown
  double fraction = 0;   // attained / roof; may exceed 1 when data come from the caches
  std::string bound;     // "compute", "memory", "unknown"
  double lost = 0;       // s: seconds * (1 - fraction), not below 0
};

struct Roofline {
  std::vector<trace::Peak> peaks;  // one per what and kind: the highest of all ranks
  std::vector<RooflineRow> rows;   // most time lost first
};

Roofline analyse_roofline(const Trace& trace, bool by_layer = false);

// "3 convolutional 64 3x3/1"; "" for none.
std::string layer_name(const Trace& trace, std::int32_t layer);

// ---- how well the performance models predicted, and which tasks took unusually long or short ----

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
  double outlier_seconds = 0;  // what they took beyond the median, in all
  // Those among them that took longer, are of one layer (others are of any size), and are not of
  // the first two iterations, which warm up: what they took beyond the median.
  double disturbed_seconds = 0;
  std::vector<OddTask> outliers;  // ten farthest off in time
};

Models analyse_models(const Trace& trace);

}  // namespace omni::perf
