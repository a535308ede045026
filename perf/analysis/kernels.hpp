// This analysis finds the times of kernels, by codelet, implementation and kind of worker, and how
// far they are from the machine's peaks.
#pragma once

#include <string>
#include <vector>

#include "perf/common/statistics.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

struct KernelRow {
  std::string codelet, implementation, kind;
  std::string layer;  // layer_name(); "": not asked for
  Spread seconds;     // per task
  double share = 0;   // of all compute time
  double flops = 0, bytes = 0;

  double gflops() const { return ratio(flops, seconds.total) * 1e-9; }  // Gflop/s
  double gbytes() const { return ratio(bytes, seconds.total) * 1e-9; }  // Gbyte/s
};

struct Kernels {
  double compute = 0;           // s
  std::vector<KernelRow> rows;  // those with the longest total come first
};

Kernels analyse_kernels(const Trace& trace, bool by_layer = false);

// The following code is the roofline: how far every codelet is from the peaks of one worker. They
// were measured before the run by a large matrix product and a large copy.

struct RooflineRow : KernelRow {
  double intensity = 0;  // flop / byte; infinite without bytes
  double attained = 0;   // flop/s of one worker; byte/s for codelets without flops
  double roof = 0;       // the largest possible `attained`; 0: unknown
  double fraction = 0;   // attained / roof; may exceed 1 if data come from caches
  std::string bound;     // "compute", "memory", "unknown"
  double lost = 0;       // s: seconds * (1 - fraction), at least 0
};

struct Roofline {
  std::vector<trace::Peak> peaks;  // one per `what` and `kind`: the highest of all ranks
  std::vector<RooflineRow> rows;   // those that lose most time come first
};

Roofline analyse_roofline(const Trace& trace, bool by_layer = false);

// Returns a name such as "3 convolutional 64 3x3/1"; "" for no layer.
std::string layer_name(const Trace& trace, std::int32_t layer);

}  // namespace omni::perf
