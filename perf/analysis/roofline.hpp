// How far every codelet is from what this machine can do: the peaks that were measured before the
// run, of a large matrix product and of a large copy, on one worker.
#pragma once

#include "perf/analysis/kernels.hpp"

namespace omni::perf {

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

}  // namespace omni::perf
