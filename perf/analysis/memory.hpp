// This analysis finds what a trace says of memory: its use over the run, the largest tensors, and
// how far the data feed was ahead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

// A CounterRow is one counter of one rank.
struct CounterRow {
  std::string name;
  std::int32_t rank = 0;
  std::size_t samples = 0;
  double first = 0, last = 0, min = 0, max = 0, mean = 0;
  double zero_share = 0;  // share of the samples that are 0

  double growth() const { return last - first; }
};

struct Memory {
  std::vector<CounterRow> memory;  // the counters "memory.*", in bytes
  std::vector<CounterRow> feed;    // "feed.*", in mini-batches ahead of training
  std::vector<CounterRow> other;
  double data_bytes = 0;             // of all tensors together
  std::vector<trace::Data> largest;  // the ten largest, largest first
};

Memory analyse_memory(const Trace& trace);

}  // namespace omni::perf
