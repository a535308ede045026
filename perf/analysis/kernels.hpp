// What the kernels took and attained, by codelet, implementation and kind of worker.
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

// "3 convolutional 64 3x3/1"; "" for none.
std::string layer_name(const Trace& trace, std::int32_t layer);

}  // namespace omni::perf
